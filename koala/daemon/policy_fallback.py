"""Fallback for policies of other packages: validate their answers, and limit their time.

A policy that raises, takes too long or returns an invalid answer is replaced by the default for the
rest of this daemon's life, and the replacement is reported. Only live decisions call them:
earlier answers are in the journal, and a replay calls no policy. The time limit is an alarm of the
operating system, which interrupts even endless Python code; it works in the main thread, where the
event loop runs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TypeVar

from koala.core.model.grid import GridView, Placement, PlacementRequest, Unplaceable
from koala.core.model.progress_reports import Correction, ProgressQuestion
from koala.core.policy_api import Ordering, PlacementPolicy, Policies, ProgressPolicy
from koala.policies import BUILT_IN, DEFAULT_PLACEMENT
from koala.policies.answer_checks import correction_error, placement_error
from koala.protocol.ordering import OrderPolicy, QueuedJob, key_error

LIMIT_S = 0.5
"""Time limit of one answer; the daemon is blocked meanwhile."""
REPEAT_S = 0.1
"""Interval between interrupts of a policy that catches the first one."""
T = TypeVar("T")


class PolicyTimeoutError(BaseException):
    """Time limit exceeded. Not an Exception, so that a policy's `except Exception` lets it pass."""


def with_fallbacks(policies: Policies, names: Mapping[str, str]) -> Policies:
    """Give the placement and progress policies and orders of others a fallback."""
    name = names.get("placement", DEFAULT_PLACEMENT)
    place = policies.place
    if name not in BUILT_IN["placement"]:
        place = PlacementWithFallback(place, name=name)
    ours = [name.lower() for name in BUILT_IN["progress"]]
    progress = {
        name: policy if name in ours else ProgressWithFallback(policy, name=name)
        for name, policy in policies.progress.items()
    }
    queueing = policies.queueing
    if isinstance(queueing, Ordering) and queueing.name not in BUILT_IN["queueing"]:
        order = OrderWithFallback(queueing.order, name=queueing.name)
        queueing = replace(queueing, order=order)
    return replace(policies, place=place, progress=progress, queueing=queueing)


def replaced_policies(policies: Policies) -> dict[str, str]:
    """Return the replaced policies by slot and name, with the reason."""
    order = getattr(policies.queueing, "order", None)
    asked: tuple[object, ...] = (policies.place, *policies.progress.values(), order)
    return {
        f"{policy.slot}.{policy.name}": policy.trouble
        for policy in asked
        if isinstance(policy, _WithFallback) and policy.trouble
    }


class _WithFallback:
    """A policy of another package until it misbehaves; `trouble` is the reason once it has."""

    slot = ""
    default = ""

    def __init__(self, *, name: str, limit_s: float) -> None:
        self.name = name
        self.trouble = ""
        self._limit_s = limit_s

    def _ask(self, ask: Callable[[], T], error_of: Callable[[T], str]) -> T | None:
        """Call the policy and return its answer; None if it was replaced for that."""
        answer: T | None = None
        try:
            with _time_limit(self._limit_s):
                answer = ask()
            wrong = error_of(answer)
        except PolicyTimeoutError:
            wrong = f"no answer in {self._limit_s:g} s"
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code
            wrong = f"{type(error).__name__}: {error}"
        if not wrong:
            return answer
        self._replace(wrong)
        return None

    def _replace(self, trouble: str) -> None:
        from koala.runtime.structured_log import get_logger  # noqa: PLC0415 - simulations import this and never log

        self.trouble = trouble
        get_logger(__name__).error(
            "policy.replaced",
            slot=self.slot,
            policy=self.name,
            by=self.default,
            reason=trouble,
        )


class PlacementWithFallback(_WithFallback):
    """Placement policy with Close-to-Files as its fallback."""

    slot = "placement"
    default = DEFAULT_PLACEMENT

    def __init__(self, policy: PlacementPolicy, *, name: str, limit_s: float = LIMIT_S) -> None:
        super().__init__(name=name, limit_s=limit_s)
        self._policy = policy
        self._default: PlacementPolicy = BUILT_IN[self.slot][self.default]

    def __call__(self, request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
        """Return the policy's answer, or that of the default once it is replaced."""
        if not self.trouble:
            answer = self._ask(
                lambda: self._policy(request, view.copy()),
                lambda answer: placement_error(answer, request, view),
            )
            if answer is not None:
                return answer
        return self._default(request, view)


class ProgressWithFallback(_WithFallback):
    """Progress policy; its fallback lets all components run freely."""

    slot = "progress"
    default = "free"

    def __init__(self, policy: ProgressPolicy, *, name: str, limit_s: float = LIMIT_S) -> None:
        super().__init__(name=name, limit_s=limit_s)
        self._policy = policy

    def __call__(self, question: ProgressQuestion) -> tuple[Correction, ...]:
        """Return the policy's corrections; once it is replaced, restore all weight it held back."""
        if not self.trouble:
            answer = self._ask(
                lambda: self._policy(question), lambda answer: correction_error(answer, question)
            )
            if answer is not None:
                return answer
        return tuple(
            Correction(component=member.component, weight=member.spare)
            for member in question.members
            if member.spare
        )


class OrderWithFallback(_WithFallback):
    """Order of jobs; its fallback is the order of submission."""

    slot = "queueing"
    default = "order of submission"

    def __init__(self, order: OrderPolicy, *, name: str, limit_s: float = LIMIT_S) -> None:
        super().__init__(name=name, limit_s=limit_s)
        self._order = order

    def __call__(self, job: QueuedJob) -> object:
        """Return the policy's sort key; once it is replaced, the same for all jobs."""
        if self.trouble:
            return 0
        key = self._ask(lambda: self._order(job), key_error)
        return 0 if self.trouble else key


@contextmanager
def _time_limit(limit_s: float) -> Iterator[None]:
    """Interrupt the block when the limit is exceeded; possible in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise PolicyTimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s, REPEAT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
