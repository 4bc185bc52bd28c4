"""Access rules: the authorization of each call of each service, and the current caller.

- `RULES` holds all rules. A call without a rule is refused; a test compares the table with the
  services, so a new call cannot be forgotten.
- Users see their own jobs, operators all jobs (`Caller.sees`). A job of another user is answered
  like one that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NAMES_MAX = 20
"""Jobs of one call that the audit log names."""


class Kind(StrEnum):
    """Kind of an authenticated caller: a site by certificate, a user by token."""

    SITE = "site"
    USER = "user"


class Role(StrEnum):
    """Role of a user; each includes the rights of those before it."""

    USER = "user"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"

    def covers(self, other: Role) -> bool:
        """True for the same role or one with fewer rights."""
        order = tuple(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Identity of a call's caller; unauthenticated when `kind` is None.

    `expires_at` is the end of its credentials. A site without a name (plain text) may register
    under any name.
    """

    name: str = ""
    kind: Kind | None = None
    role: Role = Role.USER
    expires_at: float | None = None
    peer: str = ""

    def sees(self, owner: str) -> bool:
        """True when the caller may see jobs of this owner."""
        return self.role.covers(Role.OPERATOR) or (owner == self.name and owner != "")


NOBODY = Caller()
_CALLER: ContextVar[Caller] = ContextVar("koala-caller", default=NOBODY)


def caller_of_call() -> Caller:
    """Caller of the call that this task answers."""
    return _CALLER.get()


def set_caller(caller: Caller) -> None:
    """Set the caller for the rest of this task."""
    _CALLER.set(caller)


class Audience(StrEnum):
    """Callers that may make a call."""

    ANYBODY = "anybody"
    SITE = "site"
    USER = "user"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True, slots=True)
class Rule:
    """Access rule of a call: its allowed callers, and the objects that the audit log names.

    Without `names` only refusals are logged: queries change nothing, and are many.
    """

    audience: Audience
    names: Callable[[Any, Any], str] | None = None


def _jobs(jobs: Iterable[str]) -> str:
    named = list(jobs)
    more = f" and {len(named) - NAMES_MAX} more" if len(named) > NAMES_MAX else ""
    return " ".join(named[:NAMES_MAX]) + more


def _submitted(_: Any, reply: Any) -> str:  # noqa: ANN401 - messages of many kinds
    accepted = [result.job for result in reply.results if result.job] if reply is not None else []
    return _jobs(accepted)


def _named(request: Any, _: Any) -> str:  # noqa: ANN401
    return str(request.name)


RULES: dict[str, Rule] = {
    "Koala/Hello": Rule(Audience.USER),
    "Koala/Submit": Rule(Audience.USER, _submitted),
    "Koala/Cancel": Rule(Audience.USER, lambda request, _: _jobs(request.jobs)),
    "Koala/List": Rule(Audience.USER),
    "Koala/Show": Rule(Audience.USER),
    "Koala/Why": Rule(Audience.USER),
    "Koala/Timeline": Rule(Audience.USER),
    "Koala/Sites": Rule(Audience.USER),
    "Koala/ChangeSite": Rule(Audience.OPERATOR, lambda r, _: f"{r.verb} {r.site}"),
    "Koala/ListFiles": Rule(Audience.USER),
    "Koala/Metrics": Rule(Audience.USER),
    "Koala/Report": Rule(Audience.USER),
    "Koala/Watch": Rule(Audience.USER),
    "Koala/Logs": Rule(Audience.USER),
    "Koala/Outputs": Rule(Audience.USER),
    "Koala/AddSite": Rule(Audience.OPERATOR, _named),
    "Koala/RevokeSite": Rule(Audience.OPERATOR, _named),
    "Koala/ListEnrolments": Rule(Audience.OPERATOR),
    "Koala/AddUser": Rule(Audience.ADMINISTRATOR, lambda r, _: f"{r.name} {r.role}"),
    "Koala/RevokeUser": Rule(Audience.ADMINISTRATOR, _named),
    "Koala/ListUsers": Rule(Audience.ADMINISTRATOR),
    "Koala/Audit": Rule(Audience.ADMINISTRATOR),
    "AgentLink/Connect": Rule(Audience.SITE, lambda _, __: ""),
    "Enrolment/Where": Rule(Audience.ANYBODY),
    "Enrolment/Join": Rule(Audience.ANYBODY, lambda request, _: str(request.site)),
    "Enrolment/Renew": Rule(Audience.SITE, lambda _, __: ""),
}
"""By service and call."""
