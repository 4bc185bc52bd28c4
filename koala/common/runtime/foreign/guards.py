"""Guards of policies of other packages, each with the default behind it.

In live use a function without an answer in time is replaced like one that errs. In simulated time
it ends the run with an error, because otherwise the speed of the machine would decide between two
results.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from koala.common.runtime.foreign.alarms import PATIENCE, SIMULATED_LIMIT_S
from koala.common.runtime.foreign.calls import FaultError, answer_of
from koala.errors import EndlessPolicyError

LIVE_LIMIT_S = 0.5
"""Time limit of an answer in live use; the process is blocked meanwhile."""


class ReplacedPolicyWarning(UserWarning):
    """A simulation went on with the default in place of a policy that misbehaved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Form of a function of other packages: what it is asked, what it answers, what replaces it.

    - `arguments`, `answer`: what a function is given and returns, in words.
    - `pose`: makes of a question the arguments, which the function may change without harm, and the
      reader of its answer. The reader returns plain values or raises InvalidAnswerError.
    - `fallback`: answers the question in place of the function; `by` is its name.
    """

    arguments: tuple[str, ...]
    answer: str
    pose: Callable[..., tuple[tuple[Any, ...], Callable[[Any], Any]]]
    fallback: Callable[..., Any]
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A policy that misbehaved, the default that goes on in its place, and the reason."""

    slot: str
    policy: str
    by: str
    fault: FaultError

    def __str__(self) -> str:
        return f"{self.slot} = {self.policy}{_REPLACED}{self.by}: {self.fault}"


_REPLACED = ": replaced by "


def is_replacement(note: str) -> bool:
    """Return True for a note on a run that tells of a replacement."""
    return _REPLACED in note


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """Conduct towards functions of other packages: the time limit of an answer, and who hears of a
    replacement. In simulated time a function without an answer ends the run."""

    limit_s: float
    is_simulated: bool = False
    report: Callable[[Replacement], None]


_run: ContextVar[list[str] | None] = ContextVar("koala_replaced_policies", default=None)


@contextmanager
def noting_replacements() -> Iterator[list[str]]:
    """Yield the list that gets a text for each policy that is replaced in this simulated run."""
    noted: list[str] = []
    token = _run.set(noted)
    try:
        yield noted
    finally:
        _run.reset(token)
        PATIENCE.rest()


def _note(replacement: Replacement) -> None:
    noted = _run.get()
    if noted is not None:
        noted.append(str(replacement))
    told = globals().setdefault("__warningregistry__", {})  # where Python keeps what it has told
    warnings.warn_explicit(str(replacement), ReplacedPolicyWarning, "koala", 1, registry=told)


SIMULATED = Conduct(limit_s=SIMULATED_LIMIT_S, is_simulated=True, report=_note)


class PolicyGuard:
    """Guard of one policy, which may consist of several functions; `trouble` is the reason once it
    is replaced."""

    __slots__ = ("conduct", "name", "slot", "trouble")

    def __init__(self, *, slot: str, name: str, conduct: Conduct) -> None:
        self.slot = slot
        self.name = name
        self.conduct = conduct
        self.trouble = ""

    def replace(self, by: str, fault: FaultError) -> None:
        """Replace the policy for good, and report it. Raises EndlessPolicyError in simulated time
        if it gave no answer."""
        if fault.is_timeout and self.conduct.is_simulated:
            raise EndlessPolicyError(f"{self.slot} = {self.name}: {fault}: the run has no result")
        self.trouble = fault.reason
        self.conduct.report(Replacement(slot=self.slot, policy=self.name, by=by, fault=fault))


class Guarded:
    """A function of another package until its guard replaces it, then the fallback of its form."""

    __slots__ = ("form", "function", "guard")

    def __init__(self, function: Callable[..., Any], form: Form, guard: PolicyGuard) -> None:
        self.function = function
        self.form = form
        self.guard = guard

    def __call__(self, *question: Any) -> Any:  # noqa: ANN401 - the form's
        """Return the function's answer, or that of the fallback once it is replaced."""
        if not self.guard.trouble:
            arguments, read = self.form.pose(*question)
            try:
                conduct = self.guard.conduct
                return answer_of(
                    self.function,
                    arguments,
                    read,
                    limit_s=conduct.limit_s,
                    is_simulated=conduct.is_simulated,
                )
            except FaultError as fault:
                self.guard.replace(self.form.by, fault)
        return self.form.fallback(*question)
