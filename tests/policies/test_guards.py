"""A policy of another package that errs, hangs or answers nonsense is replaced, in every slot."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, repeat
from typing import Any

import pytest

from koala.common.protocol.ordering import QueuedJob
from koala.common.runtime.foreign import alarms
from koala.common.runtime.foreign.guards import (
    Conduct,
    Guarded,
    ReplacedPolicyWarning,
    Replacement,
    noting_replacements,
)
from koala.core.model.grid import (
    Assignment,
    GridView,
    Part,
    Placement,
    PlacementRequest,
    Replica,
    SiteView,
    Unplaceable,
)
from koala.core.model.progress_reports import Correction, MemberProgress, ProgressQuestion
from koala.core.model.values import FileName, Inputs, JobId, Priority, SiteName, UserName
from koala.core.model.visiting import Discipline, LocalJobs
from koala.core.policy_api import (
    ClaimPlan,
    ClaimQuestion,
    MalleableJob,
    PartPlan,
    PendingPart,
    ResizePlan,
    ResizeQuestion,
    ResizeShare,
    TicketPart,
    TicketPlan,
    TicketQuestion,
    Victim,
)
from koala.errors import ConfigError, InvalidAnswerError
from koala.policies import chosen
from koala.policies.answers import read_order, read_plan
from koala.policies.slots import SLOTS, guards_of, replaced_policies
from koala.policies.tickets.queues import dodge

DELFT, LEIDEN = SiteName("delft"), SiteName("leiden")
FILE, NOWHERE = FileName("data"), FileName("nowhere")
LONG_S = 60.0
"""For policies that answer: a busy machine may leave them alone for a while."""
SHORT_S = 0.05


def live(limit_s: float = LONG_S) -> Conduct:
    return Conduct(limit_s=limit_s, report=lambda _replacement: None)


def view() -> GridView:
    return GridView(
        [
            SiteView(name=DELFT, processors=8, idle=8, slots=2),
            SiteView(name=LEIDEN, processors=8, idle=4),
        ],
        replicas={FILE: Replica(size_bytes=100, sites=(LEIDEN,))},
        bandwidth={},
        bandwidth_default=10.0,
        free={(LEIDEN, DELFT): 50.0},
    )


def request(*processors: int, file: Inputs | None = None, **more: Any) -> PlacementRequest:
    return PlacementRequest(
        parts=tuple(
            Part(component=n, processors=size, size_bytes=100, file=file)
            for n, size in enumerate(processors or (2,))
        ),
        **more,
    )


def at(site: str, component: int = 0, **more: Any) -> Assignment:
    return Assignment(component=component, site=SiteName(site), **more)


def a_claim(**more: Any) -> ClaimQuestion:
    """A question of three components: one that can start, one that must move, one elsewhere."""
    given = {
        "components": 3,
        "held": 0,
        "pending": (
            PendingPart(component=0, processors=2, site=DELFT, fixed=None, size_bytes=0),
            PendingPart(component=1, processors=6, site=LEIDEN, fixed=None, size_bytes=0),
            PendingPart(component=2, processors=1, site=LEIDEN, fixed=LEIDEN, size_bytes=0),
        ),
        "user": UserName("ann"),
        "priority": Priority.LOW,
        "remaining_s": 100.0,
        "threshold": 0.0,
        "preempt": "complete",
    }
    return ClaimQuestion(**{**given, **more})


def place(asked: PlacementRequest, _view: GridView) -> Placement:
    """Place everything in Delft."""
    return Placement(assignments=tuple(at("delft", part.component) for part in asked.parts))


def a_report() -> ProgressQuestion:
    members = tuple(
        MemberProgress(component=n, virtual_s=n, weight=0.75, admitted=1.0, spare=0.25)
        for n in range(2)
    )
    return ProgressQuestion(real_s=2.0, members=members, asynchrony_s=1.0)


JOB = QueuedJob(user="ann", processors=1, estimate_s=1.0, waited_s=0.0)
QUEUES = ((DELFT, LEIDEN), ("",), (DELFT,), (LEIDEN,), 0.5)


def discipline(function: Callable[..., Any]) -> Discipline:
    return Discipline(name="theirs", local_jobs=LocalJobs.ALL, order=function, permits=function)


FREE = (Correction(component=0, weight=0.25), Correction(component=1, weight=0.25))
TICKETS = TicketQuestion(
    parts=(
        TicketPart(component=0, processors=4, tickets=3, start_s=60.0),
        TicketPart(component=1, processors=4, tickets=2, held_s=20.0),
    ),
    run_s=3600.0,
    tickets_max=3,
    slack_s=300.0,
    hold_min_s=600.0,
    hold_max_s=3600.0,
)
RESIZE = ResizeQuestion(
    site=DELFT,
    processors=6,
    jobs=(
        MalleableJob(job=JobId("j1"), started_at=5.0, processors=4, least=2, most=12),
        MalleableJob(job=JobId("j2"), started_at=9.0, processors=4, least=2, most=12),
    ),
)
CASES: dict[str, tuple[str, Callable[..., Any], Callable[[Any], Any], Any]] = {
    "placement": (
        "placement",
        lambda f: lambda request, view: f(),
        lambda policy: policy(request(), view()),
        Placement(assignments=(at("delft"),)),
    ),
    "claiming": (
        "claiming",
        lambda f: lambda question, view, place: f(),
        lambda policy: policy(a_claim(), view(), place).claims,
        (0, 2),
    ),
    "deadlines": (
        "deadlines",
        lambda f: lambda question, view, place: f(),
        lambda policy: policy(a_claim(), view(), place).claims,
        (0, 2),
    ),
    "tickets": (
        "tickets",
        lambda f: lambda question: f(),
        lambda policy: policy(TICKETS),
        dodge(TICKETS),
    ),
    "resizing": (
        "resizing",
        lambda f: lambda question: f(),
        lambda policy: policy(RESIZE),
        ResizePlan(shares=(ResizeShare(job=JobId("j1"), processors=6),)),
    ),
    "progress": (
        "progress",
        lambda f: lambda question: f(),
        lambda policy: policy(a_report()),
        FREE,
    ),
    "order": ("queueing", lambda f: lambda job: f(), lambda policy: policy(JOB), ()),
    "turn": (
        "queueing",
        lambda f: lambda scans, times: f(),
        lambda policy: policy(0, 2),
        Priority.HIGH,
    ),
    "discipline, order": (
        "queueing",
        lambda f: discipline(lambda *_: f()),
        lambda policy: policy.order(*QUEUES),
        (DELFT, LEIDEN, ""),
    ),
    "discipline, permits": (
        "queueing",
        lambda f: discipline(lambda *_: f()),
        lambda policy: policy.permits([], [1], [[], [1]]),
        True,
    ),
}
"""Kinds of policies: slot, the policy that calls a function, a question, the fallback's answer."""


class UnreadableError(Exception):
    """An error that cannot be described."""

    def __str__(self) -> str:
        raise ValueError

    __repr__ = __str__


class Hostile:
    """An answer whose every method errs."""

    def __eq__(self, other: object) -> bool:
        raise ValueError

    def __hash__(self) -> int:
        raise ValueError

    def __repr__(self) -> str:
        raise UnreadableError

    def __bool__(self) -> bool:
        raise ValueError

    __str__ = __repr__


def raising(error: BaseException | type[BaseException]) -> Callable[[], Any]:
    def function() -> None:
        raise error

    return function


def recursive() -> Any:
    return recursive()


def generator() -> Iterator[int]:
    yield 1
    raise ValueError


MISDEEDS: dict[str, Callable[[], Any]] = {
    "an error": raising(KeyError("price")),
    "an end": raising(SystemExit(3)),
    "an interrupt": raising(KeyboardInterrupt),
    "no text": raising(UnreadableError),
    "recursion": recursive,
    "memory": raising(MemoryError),
    "a stopped generator": raising(GeneratorExit),
    "None": lambda: None,
    "a text": lambda: "nonsense",
    "nan": lambda: float("nan"),
    "hostile": Hostile,
    "a type": lambda: Placement,
    "an endless iterator": count,
    "an endless repetition": lambda: repeat(DELFT),
    "a generator": generator,
    "SIGTERM": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "SIGALRM": lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN),
    "an alarm": lambda: signal.alarm(1),
    "a timer": lambda: signal.setitimer(signal.ITIMER_PROF, 1.0),
}


def guarded(kind: str, function: Callable[[], Any], conduct: Conduct) -> Any:
    slot, policy_of, _, _ = CASES[kind]
    return SLOTS[slot].guarded(policy_of(function), "theirs", conduct)


def guard_of(policy: Any) -> Any:
    function: Any = policy.order if isinstance(policy, Discipline) else policy
    return function.guard


@pytest.fixture(autouse=True)
def the_run_ends() -> Iterator[None]:
    """Tests ask policies in simulated time without the run that ends with them."""
    yield
    alarms.PATIENCE.rest()


@pytest.mark.parametrize("misdeed", MISDEEDS)
@pytest.mark.parametrize("kind", CASES)
def test_a_policy_that_misbehaves_is_replaced_for_good(kind: str, misdeed: str) -> None:
    _, _, ask, expected = CASES[kind]
    asked = []
    told: list[Replacement] = []
    before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGALRM, signal.SIGINT)]

    def function() -> Any:
        asked.append(1)
        return MISDEEDS[misdeed]()

    policy = guarded(kind, function, Conduct(limit_s=LONG_S, report=told.append))
    assert ask(policy) == expected
    assert ask(policy) == expected
    assert guard_of(policy).trouble
    assert len(asked) == len(told) == 1
    after = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGALRM, signal.SIGINT)]
    assert after == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def spins() -> Any:
    while True:
        pass


def sleeps() -> Any:
    while True:
        threading.Event().wait()


def catches_everything() -> Any:
    while True:
        try:  # noqa: SIM105 - as some programs do
            sleeps()
        except BaseException:  # noqa: BLE001, S110
            pass


def suppresses_everything() -> Any:
    while True:
        with contextlib.suppress(BaseException):
            spins()


def catches_everything_twice() -> Any:
    while True:
        try:  # noqa: SIM105
            catches_everything()
        except BaseException:  # noqa: BLE001, S110
            pass


def answers_late() -> Any:
    with contextlib.suppress(BaseException):
        spins()
    return ()


def hangs_in_its_text() -> Any:
    class Endless(Exception):  # noqa: N818
        def __str__(self) -> str:
            return str(spins())

    raise Endless


HANGS = (
    spins,
    sleeps,
    catches_everything,
    suppresses_everything,
    catches_everything_twice,
    answers_late,
    hangs_in_its_text,
)


@pytest.mark.parametrize("function", HANGS)
def test_a_policy_that_does_not_return_is_interrupted(function: Callable[[], Any]) -> None:
    policy = guarded("progress", function, live(SHORT_S))
    assert policy(a_report()) == FREE
    assert policy.guard.trouble == "no answer in 0.05 s"
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("kind", CASES)
def test_a_policy_of_any_kind_is_interrupted(kind: str) -> None:
    policy = guarded(kind, catches_everything, live(SHORT_S))
    assert CASES[kind][2](policy) == CASES[kind][3]
    assert guard_of(policy).trouble == "no answer in 0.05 s"


def test_a_simulated_run_notes_and_tells_what_was_replaced() -> None:
    policies = chosen(placement=CASES["placement"][1](raising(KeyError("price"))))
    with noting_replacements() as noted, pytest.warns(ReplacedPolicyWarning, match="KeyError"):
        policies.place(request(), view())
    assert len(noted) == 1
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert noted[0].startswith("placement = <lambda>: replaced by CF: KeyError: 'price', in test_")
    assert replaced_policies(policies) == {"placement.<lambda>": "KeyError: 'price'"}


def test_an_interrupt_by_the_user_passes() -> None:
    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        sleeps()

    policy = guarded("progress", interrupted, live())
    with pytest.raises(KeyboardInterrupt):
        policy(a_report())
    assert not policy.guard.trouble


# --- questions stay as they are ---


def test_a_policy_cannot_change_its_question() -> None:
    def grabs(asked: PlacementRequest, grid: GridView) -> Placement:
        grid.take(DELFT, 8)
        grid.close([LEIDEN])
        object.__setattr__(asked, "parts", ())
        with contextlib.suppress(AttributeError):
            grid._replicas.clear()  # type: ignore[attr-defined]
        return Placement(assignments=(at("leiden"),))

    policy = SLOTS["placement"].guarded(grabs, "theirs", live())
    question, picture = request(), view()
    assert policy(question, picture) == Placement(assignments=(at("leiden"),))
    assert (picture.idle_at(DELFT), picture.idle_at(LEIDEN)) == (8, 4)
    assert picture.holders(FILE) == (LEIDEN,)
    assert len(question.parts) == 1


def test_the_functions_of_a_discipline_are_replaced_together() -> None:
    policy = SLOTS["queueing"].guarded(discipline(raising(KeyError)), "theirs", live())
    assert policy.permits([], [], [])
    assert policy.order(*QUEUES) == (DELFT, LEIDEN, "")
    assert len(guards_of(replace(chosen(), queueing=policy))) == 1


# --- answers ---


@pytest.mark.parametrize(
    ("answer", "words", "trouble"),
    [
        ((), {}, "placed the components []"),
        ((at("delft"), at("delft")), {}, "has too many members (expected at most 1)"),
        ((at("delft", 7),), {}, "placed the components [7]"),
        ((at("nowhere"),), {}, "does not fit"),
        ((at("delft"),), {"processors": (9,)}, "does not fit"),
        ((at("leiden"), at("leiden", 1)), {"processors": (3, 3)}, "does not fit"),
        (tuple(at("delft", n) for n in range(3)), {"processors": (1, 1, 1)}, "does not fit"),
        ((at("delft"),), {"file": FILE}, "delft has no copy of its file"),
        ((at("leiden", source=DELFT),), {"file": FILE}, "delft has no copy of its file"),
        ((at("delft", source=LEIDEN),), {"file": (FILE, NOWHERE)}, "no site has one of its files"),
        ((at("delft", source=LEIDEN, booked_bps=51.0),), {"file": FILE}, "more of"),
        ((at("delft", source=LEIDEN, booked_bps=float("inf")),), {"file": FILE}, "more of"),
        ((at("leiden", booked_bps=1.0),), {"file": FILE}, "more of"),
        ((at("delft", transfer_s=float("nan")),), {}, "a transfer of nan s"),
        ((at("delft", transfer_s=1e300),), {}, "a transfer of 1e+300 s"),
        ((at("delft", source=LEIDEN, transfer_s=float("inf")),), {"file": FILE}, "of inf s"),
        ((at("delft", source=LEIDEN, transfer_s=1e9),), {"file": FILE}, "of 1000000000.0 s"),
        ((at("delft", source=LEIDEN, transfer_s=3.0),), {"file": FILE, "transfer_s_max": 2.0},
         "a transfer of 3.0 s"),
        ((at("delft", source=LEIDEN),), {}, "leiden is the source of no file"),
        ((at("delft", mips=-1.0),), {}, "a rate below 0"),
        ((at("delft", mips=float("inf")),), {}, "a rate of inf MIPS"),
        ((at("delft", mips="fast"),), {}, "mips is str"),
        ((Assignment(component=0, site=7),), {}, "the site is int"),  # type: ignore[arg-type]
        ((Assignment(component=0.5, site=DELFT),), {}, "the component is float"),  # type: ignore[arg-type]
        ((7,), {}, "int among assignments"),
    ],
)  # fmt: skip
def test_an_impossible_placement_is_not_believed(
    answer: tuple[Assignment, ...], words: dict[str, Any], trouble: str
) -> None:
    given = Placement(assignments=answer)
    policy = SLOTS["placement"].guarded(lambda _request, _view: given, "theirs", live())
    sizes = words.pop("processors", (2,))
    policy(request(*sizes, **words), view())
    assert trouble in policy.guard.trouble


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (Unplaceable(component=3, reason="no"), "no component 3 was asked about"),
        (Unplaceable(component=0, reason=7), "the reason is int"),  # type: ignore[arg-type]
    ],
)
def test_an_impossible_refusal_is_not_believed(answer: Any, trouble: str) -> None:
    policy = SLOTS["placement"].guarded(lambda _request, _view: answer, "theirs", live())
    assert isinstance(policy(request(), view()), Placement)
    assert trouble in policy.guard.trouble


A_VICTIM = Victim(job=JobId("j7"), start_at=9.0, held=((LEIDEN, 4),))
SPARE = Victim(job=JobId("j8"), start_at=8.0, held=((LEIDEN, 4),))
HIGH = {"priority": Priority.HIGH, "victims": (A_VICTIM, SPARE), "preemptible": (LEIDEN,)}
MOVE = at("delft", 1)
CLAIMED = {"fraction": 1.0, "claims": (0, 2)}


@pytest.mark.parametrize(
    ("plan", "words", "trouble"),
    [
        ({"fraction": float("nan")}, {}, "fraction = nan"),
        ({"fraction": 7.0}, {}, "fraction = 7"),
        ({"fraction": 1.0, "claims": (9,)}, {}, "component 9 is not pending"),
        ({"fraction": 1.0, "claims": (0, 0)}, {}, "or is named twice"),
        ({"fraction": 1.0, "claims": (0,), "moves": (at("delft"),)}, {}, "or is named twice"),
        ({"fraction": 1.0, "claims": (1,)}, {}, "component 1 at leiden does not fit"),
        ({"fraction": 1.0, "claims": (-1,)}, {}, "component -1 is not pending"),
        ({"fraction": 1.0, "moves": (at("leiden", 1),)}, {}, "an answer of the placement policy"),
        ({"fraction": 1.0, "moves": (at("nowhere", 1),)}, {}, "an answer of the placement policy"),
        ({"fraction": 1.0, "moves": (MOVE,)}, {"is_distinct": True, "held_at": (DELFT,)},
         "expected distinct sites"),
        ({**CLAIMED, "victims": (JobId("j7"),)}, HIGH, "preempts j7 for the components []"),
        ({**CLAIMED, "preempting": (1,), "victims": (JobId("j9"),)}, HIGH, "preempts j9"),
        ({**CLAIMED, "preempting": (1,), "victims": (JobId("j8"),)}, HIGH, "expected j7"),
        ({**CLAIMED, "preempting": (1,), "victims": (JobId("j7"), JobId("j8"))}, HIGH,
         "expected j7 for [1]"),
        ({**CLAIMED, "preempting": (1,), "victims": (JobId("j7"),)},
         {**HIGH, "priority": Priority.LOW}, "expected no jobs"),
        ({"fraction": 1.0, "preempting": (1,), "victims": (JobId("j7"),)}, HIGH,
         "leaves out the components [0, 2]"),
        ({"fraction": 0.0, "forced": (MOVE,)}, {}, "forced: component 1 at delft"),
        ({"fraction": 1.0, "claims": (0,)}, {"threshold": 0.5}, "expected at least 0.5"),
        ({"fraction": 1.0, "claims": count()}, {}, "claims has too many members"),
        ({"fraction": 1.0, "claims": None}, {}, "claims is NoneType"),
        ({"fraction": 1.0, "claims": ("0",)}, {}, "claims is str"),
    ],
)  # fmt: skip
def test_an_impossible_plan_is_not_believed(
    plan: dict[str, Any], words: dict[str, Any], trouble: str
) -> None:
    with pytest.raises(InvalidAnswerError) as error:
        read_plan(ClaimPlan(**plan), a_claim(**words), view(), {MOVE, at("delft")})
    assert trouble in str(error.value)


@pytest.mark.parametrize(
    ("part", "begin_s"),
    [({}, 60.0), ({"books": True}, -1.0), ({"books": True}, float("inf")),
     ({"books": True, "held_s": 1.0}, 60.0), ({"begins_s": 60.0}, 61.0)],
)  # fmt: skip
def test_an_impossible_booking_is_not_believed(part: dict[str, Any], begin_s: float) -> None:
    asked = TicketPart(component=0, processors=4, tickets=0, **part)
    plan = PartPlan(component=0, tickets=0, open=0, begin_s=begin_s)
    policy = SLOTS["tickets"].guarded(
        lambda _question: TicketPlan(parts=(plan,), hold_s=600.0), "theirs", live()
    )
    policy(replace(TICKETS, parts=(asked,)))
    assert "component 0 is booked" in policy.guard.trouble


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        ((0,), "int among the answers"),
        ((Correction(component=2, weight=0.1),), "component 2 was not asked about"),
        ((Correction(component=0, weight=0.1),) * 2, "corrected twice"),
        ((Correction(component=0, weight=0.5),), "expected -0.75 to 0.25)"),
        ((Correction(component=0, weight=-0.8),), "is given -0.8"),
        ((Correction(component=0, weight=float("nan")),), "is given nan"),
        ((Correction(component=0, weight="all"),), "weight is str"),  # type: ignore[arg-type]
    ],
)
def test_impossible_corrections_are_not_believed(answer: Any, trouble: str) -> None:
    policy = SLOTS["progress"].guarded(lambda _question: answer, "theirs", live())
    assert policy(a_report()) == FREE
    assert trouble in policy.guard.trouble


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        ((), "leaves out the queue 'a'"),
        (("a", "b", "nowhere"), "no queue 'nowhere'"),
        (("a", "b", "a", "b"), "has too many members (expected at most 3)"),
        (7, "the order is int"),
    ],
)
def test_an_impossible_order_of_queues_is_not_believed(answer: Any, trouble: str) -> None:
    with pytest.raises(InvalidAnswerError) as error:
        read_order(answer, ("a", "b"), ("b",))
    assert trouble in str(error.value)


# --- which policies are guarded ---


def test_built_in_policies_are_called_as_they_are() -> None:
    for name, slot in SLOTS.items():
        for policy in slot.built_in.values():
            assert slot.guarded(policy, name, live()) is policy
    assert guards_of(chosen()) == []


def test_every_slot_has_a_default_and_the_fallback_of_each_form() -> None:
    for slot in SLOTS.values():
        assert slot.default in slot.built_in
        for form in (*slot.forms.values(), *slot.record_forms.values()):
            assert callable(form.fallback)
        assert {CASES[kind][0] for kind in CASES} == set(SLOTS)


def test_a_policy_in_force_is_guarded_in_every_field() -> None:
    for slot, policy_of, _, _ in CASES.values():
        policies = chosen(live(), **{slot: policy_of(raising(KeyError))})
        (guard,) = guards_of(policies)
        assert (guard.slot, guard.trouble) == (slot, "")
        value = getattr(policies, SLOTS[slot].attribute)
        inner = [value, *(getattr(value, name, None) for name in ("order", "turn", "permits"))]
        if isinstance(value, dict):
            inner = list(value.values())
        assert any(isinstance(one, Guarded) for one in inner)


class Own(Discipline):
    """A discipline that is no plain record."""


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Own(name="own", local_jobs=LocalJobs.ALL, order=lambda *_: ()), "is a Own"),
        (replace(discipline(len), name=7), "name is int (expected a text"),  # type: ignore[arg-type]
        (replace(discipline(len), local_jobs="all"), "local_jobs is str"),  # type: ignore[arg-type]
        (replace(discipline(len), permits=7), "permits is not a function"),  # type: ignore[arg-type]
        (7, "expected a function of 1 or 2 arguments, or"),
    ],
)
def test_what_is_no_policy_of_the_slot_is_refused(policy: Any, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        SLOTS["queueing"].guarded(policy, "theirs", live())
    assert text in str(error.value)


def test_an_object_that_is_called_is_a_policy_of_its_number_of_arguments() -> None:
    class Order:
        def __call__(self, job: QueuedJob) -> float:
            return job.processors

    queueing: Any = chosen(queueing=Order()).queueing
    assert queueing.order(JOB) == (1,)
