"""Who may do what: a rule for each call of each service, and the caller of the call under way.

`RULES` is the whole of it. A call without a rule is refused, and a test compares the table with the
services, so that a new call is thought about. What a user sees of jobs is the other half: own ones,
operators all (`Caller.sees`); a job of somebody else is answered like one that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from koala.identity.tls import Kind

NAMES_MAX = 20
"""So many jobs of one call are named in the audit log."""


class Role(StrEnum):
    """What a user may do; each may what those before may."""

    USER = "user"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"

    def covers(self, other: Role) -> bool:
        """Whether this is that role or a greater one."""
        order = tuple(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes a call. `kind` None: nobody that is known. A site's certificate ends `expires_at`;
    a site without a name (plain text) may say it is any."""

    name: str = ""
    kind: Kind | None = None
    role: Role = Role.USER
    expires_at: float | None = None
    peer: str = ""

    def sees(self, owner: str) -> bool:
        """Whether jobs of this owner exist for the caller."""
        return self.role.covers(Role.OPERATOR) or (owner == self.name and owner != "")


NOBODY = Caller()
_CALLER: ContextVar[Caller] = ContextVar("koala-caller", default=NOBODY)


def caller_of_call() -> Caller:
    """Who makes the call that this task answers."""
    return _CALLER.get()


def set_caller(caller: Caller) -> None:
    """From now on in this task."""
    _CALLER.set(caller)


class Who(StrEnum):
    """Whom a call is for."""

    ANYBODY = "anybody"
    SITE = "site"
    USER = "user"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True, slots=True)
class Rule:
    """Whom a call is for; what of it the audit log names. Without `names` only refusals are in
    it: questions change nothing, and are many."""

    who: Who
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
    "Koala/Hello": Rule(Who.USER),
    "Koala/Submit": Rule(Who.USER, _submitted),
    "Koala/Cancel": Rule(Who.USER, lambda request, _: _jobs(request.jobs)),
    "Koala/List": Rule(Who.USER),
    "Koala/Show": Rule(Who.USER),
    "Koala/Why": Rule(Who.USER),
    "Koala/Timeline": Rule(Who.USER),
    "Koala/Sites": Rule(Who.USER),
    "Koala/ChangeSite": Rule(Who.OPERATOR, lambda r, _: f"{r.verb} {r.site}"),
    "Koala/ListFiles": Rule(Who.USER),
    "Koala/Metrics": Rule(Who.USER),
    "Koala/Report": Rule(Who.USER),
    "Koala/Watch": Rule(Who.USER),
    "Koala/Logs": Rule(Who.USER),
    "Koala/Outputs": Rule(Who.USER),
    "Koala/AddSite": Rule(Who.OPERATOR, _named),
    "Koala/RevokeSite": Rule(Who.OPERATOR, _named),
    "Koala/ListEnrolments": Rule(Who.OPERATOR),
    "Koala/AddUser": Rule(Who.ADMINISTRATOR, lambda r, _: f"{r.name} {r.role}"),
    "Koala/RevokeUser": Rule(Who.ADMINISTRATOR, _named),
    "Koala/ListUsers": Rule(Who.ADMINISTRATOR),
    "Koala/Audit": Rule(Who.ADMINISTRATOR),
    "AgentLink/Connect": Rule(Who.SITE, lambda _, __: ""),
    "Enrolment/Where": Rule(Who.ANYBODY),
    "Enrolment/Join": Rule(Who.ANYBODY, lambda request, _: str(request.site)),
    "Enrolment/Renew": Rule(Who.SITE, lambda _, __: ""),
}
"""By service and call."""
