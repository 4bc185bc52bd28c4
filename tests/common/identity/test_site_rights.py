"""Rights to change a site: operators have them, and the user whom it serves alone."""

from __future__ import annotations

import pytest

from koala.core.model.grid import SiteFacts
from koala.core.model.values import UserName
from koala.daemon.auth.access_rules import Caller, CallerKind, Role
from koala.errors import DeniedError

ANN = Caller(name="ann", kind=CallerKind.USER)
OLGA = Caller(name="olga", kind=CallerKind.USER, role=Role.OPERATOR)


def facts(*users: str, owner: str | None = None) -> SiteFacts:
    names = tuple(UserName(user) for user in users)
    return SiteFacts(processors=4, users=names, owner=UserName(owner) if owner else None)


@pytest.mark.parametrize("verb", ["drain", "resume"])
@pytest.mark.parametrize("own", [facts("ann"), facts(owner="ann"), facts("ann", owner="ann")])
def test_a_user_drains_and_resumes_a_site_of_her_own(own: SiteFacts, verb: str) -> None:
    ANN.require_change_of("delft", own, verb)


@pytest.mark.parametrize(
    "other", [facts(), facts("bob"), facts("ann", "bob"), facts(owner="bob"), None]
)
def test_a_site_that_serves_others_is_left_to_operators(other: SiteFacts | None) -> None:
    with pytest.raises(DeniedError, match="ann has the role user: to drain delft needs operator"):
        ANN.require_change_of("delft", other, "drain")
    OLGA.require_change_of("delft", other, "drain")


def test_only_operators_declare_a_site_lost() -> None:
    with pytest.raises(DeniedError):
        ANN.require_change_of("delft", facts("ann"), "lost")
    OLGA.require_change_of("delft", facts("ann"), "lost")


def test_a_caller_without_a_name_owns_no_site() -> None:
    with pytest.raises(DeniedError):
        Caller().require_change_of("delft", facts(owner=""), "drain")
