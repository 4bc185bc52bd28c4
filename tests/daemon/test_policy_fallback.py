"""A policy of another package that errs, hangs or answers nonsense is replaced, which is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

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
from koala.core.model.values import FileName, Inputs, SiteName
from koala.daemon.policy_fallback import (
    PlacementWithFallback,
    ProgressWithFallback,
    replaced_policies,
    with_fallbacks,
)
from koala.policies import chosen

DELFT, LEIDEN = SiteName("delft"), SiteName("leiden")
FILE, NOWHERE = FileName("data"), FileName("nowhere")
LONG_S = 60.0
"""For policies that answer: a busy machine may leave them alone for a while."""


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
            Part(component=n, processors=count, size_bytes=100, file=file)
            for n, count in enumerate(processors or (2,))
        ),
        **more,
    )


def at(site: str, component: int = 0, **more: Any) -> Assignment:
    return Assignment(component=component, site=SiteName(site), **more)


def answering(*assignments: Assignment) -> PlacementWithFallback:
    return PlacementWithFallback(
        lambda _request, _view: Placement(assignments=assignments), name="theirs", limit_s=LONG_S
    )


def test_one_that_behaves_is_asked_every_time() -> None:
    wrapped = answering(at("leiden"))
    for _ in range(3):
        answer = wrapped(request(), view())
        assert isinstance(answer, Placement)
        assert answer.assignments[0].site == LEIDEN
    assert not wrapped.trouble


def test_one_that_errs_is_replaced_for_good_and_the_default_answers() -> None:
    asked = []

    def errs(_request: PlacementRequest, _view: GridView) -> Placement:
        asked.append(1)
        raise KeyError("price")

    wrapped = PlacementWithFallback(errs, name="theirs", limit_s=LONG_S)
    for _ in range(3):
        answer = wrapped(request(), view())
        assert isinstance(answer, Placement)
        assert answer.assignments[0].site == DELFT  # as Close-to-Files has it
    assert wrapped.trouble == "KeyError: 'price'"
    assert len(asked) == 1


def hangs(_request: PlacementRequest, _view: GridView) -> Placement:
    while True:
        pass


def hangs_on(_request: PlacementRequest, _view: GridView) -> Placement:
    while True:
        try:
            hangs(_request, _view)
        except Exception:  # noqa: BLE001, S112 - as some programs do
            continue


@pytest.mark.parametrize("policy", [hangs, hangs_on])
def test_one_that_never_answers_is_interrupted(policy: Callable[..., Any]) -> None:
    wrapped = PlacementWithFallback(policy, name="theirs", limit_s=0.05)
    assert isinstance(wrapped(request(), view()), Placement)
    assert wrapped.trouble == "no answer in 0.05 s"


def test_the_alarm_is_off_afterwards() -> None:
    import signal

    answering(at("leiden"))(request(), view())
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_outside_the_main_thread_it_still_answers() -> None:
    found: list[object] = []
    thread = threading.Thread(
        target=lambda: found.append(answering(at("leiden"))(request(), view()))
    )
    thread.start()
    thread.join()
    assert isinstance(found[0], Placement)


@pytest.mark.parametrize(
    ("answer", "words", "trouble"),
    [
        ((), {}, "placed the components []"),
        ((at("delft"), at("delft")), {}, "placed the components [0, 0]"),
        ((at("delft", 7),), {}, "placed the components [7]"),
        ((at("nowhere"),), {}, "there is no room"),
        ((at("delft"),), {"processors": (9,)}, "there is no room"),
        ((at("leiden"), at("leiden", 1)), {"processors": (3, 3)}, "there is no room"),
        (tuple(at("delft", n) for n in range(3)), {"processors": (1, 1, 1)}, "there is no room"),
        ((at("delft"),), {"file": FILE}, "delft has no copy of its file"),
        ((at("leiden", source=DELFT),), {"file": FILE}, "delft has no copy of its file"),
        ((at("delft", source=LEIDEN),), {"file": (FILE, NOWHERE)}, "no site has one of its files"),
        ((at("delft", source=LEIDEN, booked_bps=51.0),), {"file": FILE}, "more of"),
        ((at("leiden", booked_bps=1.0),), {"file": FILE}, "more of"),
        ((at("delft", transfer_s=float("nan")),), {}, "a transfer of nan s"),
        ((at("delft", transfer_s=3.0),), {"transfer_s_max": 2.0}, "a transfer of 3.0 s"),
        ((at("delft", mips=-1.0),), {}, "a rate below 0"),
    ],
)
def test_an_answer_that_cannot_be_is_not_believed(
    answer: tuple[Assignment, ...], words: dict[str, Any], trouble: str
) -> None:
    wrapped = answering(*answer)
    sizes = words.pop("processors", (2,))
    wrapped(request(*sizes, **words), view())
    assert trouble in wrapped.trouble


@pytest.mark.parametrize("answer", [None, "delft", Unplaceable(component=3, reason="no")])
def test_neither_is_what_is_no_answer(answer: Any) -> None:
    wrapped = PlacementWithFallback(lambda _request, _view: answer, name="theirs", limit_s=LONG_S)
    assert isinstance(wrapped(request(), view()), Placement)
    assert wrapped.trouble


def test_what_a_policy_does_to_its_view_is_lost() -> None:
    def grabs(_request: PlacementRequest, grid: GridView) -> Placement:
        grid.take(DELFT, 8)
        return Placement(assignments=(at("leiden"),))

    picture = view()
    PlacementWithFallback(grabs, name="theirs", limit_s=LONG_S)(request(), picture)
    assert picture.idle_at(DELFT) == 8


def a_question() -> ProgressQuestion:
    members = tuple(
        MemberProgress(component=n, virtual_s=n, weight=0.75, admitted=1.0, spare=0.25)
        for n in range(2)
    )
    return ProgressQuestion(real_s=2.0, members=members, asynchrony_s=1.0)


FREE = (Correction(component=0, weight=0.25), Correction(component=1, weight=0.25))


def test_corrections_of_a_progress_policy_that_behaves_are_its_own() -> None:
    answer = (Correction(component=1, weight=-0.75), Correction(component=0, weight=0.25))
    wrapped = ProgressWithFallback(lambda _question: answer, name="theirs", limit_s=LONG_S)
    assert wrapped(a_question()) == answer
    assert not wrapped.trouble


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (None, "answered NoneType"),
        ((0,), "int among the answers"),
        ((Correction(component=2, weight=0.1),), "component 2 was not asked about"),
        ((Correction(component=0, weight=0.1),) * 2, "corrected twice"),
        ((Correction(component=0, weight=0.5),), "allowed is from -0.75 to 0.25"),
        ((Correction(component=0, weight=-0.8),), "is given -0.8"),
        ((Correction(component=0, weight=float("nan")),), "is given nan"),
    ],
)
def test_corrections_that_cannot_be_are_not_believed(answer: Any, trouble: str) -> None:
    wrapped = ProgressWithFallback(lambda _question: answer, name="theirs", limit_s=LONG_S)
    assert wrapped(a_question()) == FREE
    assert trouble in wrapped.trouble
    assert wrapped(a_question()) == FREE


def test_a_progress_policy_that_errs_or_hangs_is_replaced() -> None:
    def errs(_question: ProgressQuestion) -> tuple[Correction, ...]:
        raise ValueError("no idea")

    def hangs_there(_question: ProgressQuestion) -> tuple[Correction, ...]:
        while True:
            pass

    for policy, limit_s, trouble in (
        (errs, LONG_S, "ValueError: no idea"),
        (hangs_there, 0.05, "no answer in 0.05 s"),
    ):
        wrapped = ProgressWithFallback(policy, name="theirs", limit_s=limit_s)
        assert wrapped(a_question()) == FREE
        assert wrapped.trouble == trouble


def test_only_policies_of_others_are_guarded() -> None:
    ours = chosen(placement="WF")
    same = with_fallbacks(ours, {"placement": "WF"})
    assert (same.place, same.progress) == (ours.place, ours.progress)
    theirs = with_fallbacks(ours, {"placement": "theirs"})
    assert isinstance(theirs.place, PlacementWithFallback)
    assert replaced_policies(theirs) == {}
    theirs.place.trouble = "it is of no use"
    assert replaced_policies(theirs) == {"placement.theirs": "it is of no use"}
