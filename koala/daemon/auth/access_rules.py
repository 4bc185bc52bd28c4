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
from typing import Any, Literal

from koala.core.model.grid import SiteFacts
from koala.errors import DeniedError

NAMES_MAX = 20
"""Jobs of one call that the audit log names."""


class CallerKind(StrEnum):
    """Kind of an authenticated caller: a site by certificate, a user by token."""

    SITE = "site"
    USER = "user"


class Role(StrEnum):
    """Role of a user; each includes the rights of those before it."""

    USER = "user"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"

    def covers(self, needed: Role) -> bool:
        """Return True for the same role or one with fewer rights."""
        order = tuple(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Identity of a call's caller; unauthenticated when `kind` is None.

    `expires_at` is the end of its credentials; one that is invited may only exchange them. A site
    without a name (plain text) may register under any name.
    """

    name: str = ""
    kind: CallerKind | None = None
    role: Role = Role.USER
    expires_at: float | None = None
    is_invited: bool = False
    peer: str = ""

    def sees(self, owner: str) -> bool:
        """Return True when the caller may see jobs of this owner."""
        return self.role.covers(Role.OPERATOR) or (owner == self.name and owner != "")

    def require_change_of(self, name: str, facts: SiteFacts | None, verb: str) -> None:
        """Allow operators to change any site, and users to drain and resume one that serves them
        alone.

        Raises DeniedError, the same for a site that the caller may not see.
        """
        serves = set() if facts is None else {facts.owner, *facts.users} - {None}
        if self.role.covers(Role.OPERATOR):
            return
        if serves != {self.name} or self.name == "" or verb not in ("drain", "resume"):
            raise DeniedError(
                f"{self.name} has the role user: to {verb} {name} needs operator; users may drain"
                " and resume sites that serve them alone"
            )


NOBODY = Caller()
_CALLER: ContextVar[Caller] = ContextVar("koala-caller", default=NOBODY)


def caller_of_call() -> Caller:
    """Return the caller of the call that this task answers."""
    return _CALLER.get()


def set_caller(caller: Caller) -> None:
    """Set the caller for the rest of this task."""
    _CALLER.set(caller)


@dataclass(frozen=True, slots=True)
class Rule:
    """Access rule of a call: its allowed callers, and the objects that the audit log names.

    `needs` is the least role of a user, or Kind.SITE for sites; None for anybody. Without `names`
    only refusals are logged: queries change nothing, and are many.
    """

    needs: Role | Literal[CallerKind.SITE] | None
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


RENEW_TOKEN = "Koala/RenewToken"
"""The only call for which an invitation is good."""
RULES: dict[str, Rule] = {
    "Koala/Hello": Rule(Role.USER),
    "Koala/Submit": Rule(Role.USER, _submitted),
    "Koala/Cancel": Rule(Role.USER, lambda request, _: _jobs(request.jobs)),
    "Koala/Resize": Rule(Role.USER, lambda request, _: f"{request.job} {request.total}"),
    "Koala/List": Rule(Role.USER),
    "Koala/Show": Rule(Role.USER),
    "Koala/Why": Rule(Role.USER),
    "Koala/Timeline": Rule(Role.USER),
    "Koala/GridTimeline": Rule(Role.USER),
    "Koala/Sites": Rule(Role.USER),
    "Koala/ChangeSite": Rule(Role.USER, lambda r, _: f"{r.verb} {r.site}"),
    "Koala/ListFiles": Rule(Role.USER),
    "Koala/Upload": Rule(Role.USER, lambda _, __: ""),
    "Koala/AddFile": Rule(Role.USER, lambda r, _: f"{r.name} {r.site}"),
    "Koala/RemoveFile": Rule(Role.USER, lambda r, _: f"{r.name} {r.site}"),
    "Koala/Metrics": Rule(Role.USER),
    "Koala/Queues": Rule(Role.USER),
    "Koala/Report": Rule(Role.USER),
    "Koala/Watch": Rule(Role.USER),
    "Koala/Logs": Rule(Role.USER),
    "Koala/Outputs": Rule(Role.USER),
    "Koala/AddSite": Rule(Role.USER, _named),
    "Koala/RevokeSite": Rule(Role.USER, _named),
    "Koala/ListEnrolments": Rule(Role.USER),
    "Koala/Notifications": Rule(Role.USER, lambda r, _: "changed" if r.change else "asked"),
    RENEW_TOKEN: Rule(Role.USER, lambda _, __: ""),
    "Koala/AddUser": Rule(Role.ADMINISTRATOR, lambda r, _: f"{r.name} {r.role}"),
    "Koala/SetUser": Rule(Role.ADMINISTRATOR, _named),
    "Koala/SetGroup": Rule(Role.ADMINISTRATOR, _named),
    "Koala/RemoveGroup": Rule(Role.ADMINISTRATOR, _named),
    "Koala/ListGroups": Rule(Role.USER),
    "Koala/RevokeUser": Rule(Role.ADMINISTRATOR, _named),
    "Koala/ListUsers": Rule(Role.ADMINISTRATOR),
    "Koala/Audit": Rule(Role.ADMINISTRATOR),
    "AgentLink/Connect": Rule(CallerKind.SITE, lambda _, __: ""),
    "Enrolment/Where": Rule(None),
    "Enrolment/Join": Rule(None, lambda request, _: str(request.site)),
    "Enrolment/Renew": Rule(CallerKind.SITE, lambda _, __: ""),
}
"""By service and call."""
