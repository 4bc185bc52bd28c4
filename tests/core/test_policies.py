"""Close-to-Files, Worst-Fit and ICP as functions: values in, a value out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.core.model.grid import (
    GridView,
    Part,
    Placement,
    PlacementRequest,
    Replica,
    SiteView,
    Unplaceable,
)
from koala.core.model.values import FileName, JobId, Priority, SiteName, UserName
from koala.core.policy_api import ClaimQuestion, PendingPart, Victim
from koala.policies.claiming.incremental import incremental
from koala.policies.placement.close_to_files import close_to_files
from koala.policies.placement.worst_fit import pack, spread, worst_fit, worst_fit_distinct
from koala.policies.queueing.high_low import turn

FILE = FileName("data")
A, B, C = SiteName("a"), SiteName("b"), SiteName("c")


def grid(
    idle: dict[str, int],
    *,
    at: tuple[str, ...] = (),
    links: dict[tuple[SiteName, SiteName], float] | None = None,
    owners: dict[str, str] | None = None,
) -> GridView:
    """A picture with these idle processors, the file at some sites, and the given bandwidths."""
    owner = owners or {}
    return GridView(
        [
            SiteView(
                name=SiteName(name),
                processors=99,
                idle=free,
                owner=UserName(owner[name]) if name in owner else None,
            )
            for name, free in idle.items()
        ],
        replicas={FILE: Replica(size_bytes=100, sites=tuple(SiteName(s) for s in at))},
        bandwidth=links or {},
        bandwidth_default=10.0,
    )


def parts(*processors: int, size_bytes: int = 0) -> tuple[Part, ...]:
    file = FILE if size_bytes else None
    return tuple(
        Part(component=index, processors=n, size_bytes=size_bytes, file=file)
        for index, n in enumerate(processors)
    )


def sites(answer: Placement | Unplaceable) -> list[str]:
    assert isinstance(answer, Placement), answer
    return [str(assignment.site) for assignment in answer.assignments]


def test_close_to_files_goes_where_the_file_is_though_others_are_emptier() -> None:
    request = PlacementRequest(parts=parts(2, size_bytes=100))
    assert sites(close_to_files(request, grid({"a": 9, "b": 2}, at=("b",)))) == ["b"]


def test_close_to_files_takes_the_quickest_of_the_replicas() -> None:
    links = {(A, C): 5.0, (B, C): 50.0}
    request = PlacementRequest(parts=parts(4, size_bytes=100))
    answer = close_to_files(request, grid({"a": 0, "b": 0, "c": 4}, at=("a", "b"), links=links))
    assert isinstance(answer, Placement)
    assert (answer.assignments[0].source, answer.assignments[0].transfer_s) == (B, 2.0)


def test_ties_go_to_more_idle_processors_and_then_to_site_order() -> None:
    request = PlacementRequest(parts=parts(1))
    assert sites(close_to_files(request, grid({"a": 2, "b": 5, "c": 5}))) == ["b"]


def test_large_components_choose_first_and_share_sites() -> None:
    request = PlacementRequest(parts=parts(1, 5, 2))
    assert sites(close_to_files(request, grid({"a": 6, "b": 3}))) == ["a", "a", "b"]


def test_a_component_fixed_to_a_site_comes_before_those_that_may_go_anywhere() -> None:
    request = PlacementRequest(
        parts=(*parts(4), Part(component=1, processors=1, site=A)),
    )
    assert sites(close_to_files(request, grid({"a": 4, "b": 4}))) == ["b", "a"]
    assert sites(worst_fit(request, grid({"a": 4, "b": 4}))) == ["b", "a"]


def test_worst_fit_spreads_over_the_emptiest_sites() -> None:
    request = PlacementRequest(parts=parts(2, 2, 2))
    assert sites(worst_fit(request, grid({"a": 6, "b": 5}))) == ["a", "b", "a"]


def test_worst_fit_cares_not_where_the_file_is_but_that_it_can_come() -> None:
    request = PlacementRequest(parts=parts(2, size_bytes=100))
    assert sites(worst_fit(request, grid({"a": 9, "b": 2}, at=("b",)))) == ["a"]
    in_time = PlacementRequest(parts=parts(2, size_bytes=100), transfer_s_max=9.0)
    assert sites(worst_fit(in_time, grid({"a": 9, "b": 2}, at=("b",)))) == ["b"]


def test_on_distinct_sites_the_largest_component_goes_to_the_emptiest() -> None:
    request = PlacementRequest(parts=parts(2, 4, 1))
    assert sites(worst_fit_distinct(request, grid({"a": 4, "b": 3, "c": 5}))) == ["a", "c", "b"]
    answer = worst_fit_distinct(PlacementRequest(parts=parts(1, 1, 1)), grid({"a": 9, "b": 9}))
    assert isinstance(answer, Unplaceable)
    assert "all 2 have one" in answer.reason


def test_distinct_sites_are_also_those_of_components_that_are_not_asked_about() -> None:
    request = PlacementRequest(parts=parts(2), beside=(A, C))
    assert sites(worst_fit_distinct(request, grid({"a": 9, "b": 3, "c": 9}))) == ["b"]
    assert sites(worst_fit(request, grid({"a": 9, "b": 3, "c": 9}))) == ["a"]


@given(
    idle=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
)
def test_bare_numbers_are_spread_as_components_are(idle: list[int], sizes: list[int]) -> None:
    """The simulator of the multiple-queues paper calls `spread`, the daemon the policy."""
    sizes = sorted(sizes, reverse=True)[: len(idle)]
    answer = worst_fit_distinct(
        PlacementRequest(parts=parts(*sizes)), grid({str(n): free for n, free in enumerate(idle)})
    )
    found = spread(sizes, idle)
    if found is None:
        assert isinstance(answer, Unplaceable)
    else:
        assert sites(answer) == [str(site) for site in found]


@given(
    idle=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    components=st.integers(1, 6),
    size=st.integers(1, 4),
)
def test_bare_numbers_are_packed_as_components_are(
    idle: list[int], components: int, size: int
) -> None:
    """The simulator of the deadlines paper calls `pack`, the daemon the policy."""
    request = PlacementRequest(parts=parts(*[size] * components))
    answer = worst_fit(request, grid({str(n): free for n, free in enumerate(idle)}))
    found = pack(components, size, idle)
    if found is None:
        assert isinstance(answer, Unplaceable)
    else:
        assert sites(answer) == [str(site) for site in found]


@pytest.mark.parametrize("policy", [close_to_files, worst_fit])
def test_nobody_uses_a_site_that_belongs_to_another(policy: type) -> None:
    view = grid({"a": 9, "b": 3}, owners={"a": "ann"})
    bob = PlacementRequest(parts=parts(1), user=UserName("bob"))
    ann = PlacementRequest(parts=parts(1), user=UserName("ann"))
    assert sites(policy(bob, view)) == ["b"]
    assert sites(policy(ann, view)) == ["a"]


@pytest.mark.parametrize("policy", [close_to_files, worst_fit])
def test_what_does_not_fit_is_named(policy: type) -> None:
    answer = policy(PlacementRequest(parts=parts(2, 9)), grid({"a": 8, "b": 1}))
    assert isinstance(answer, Unplaceable)
    assert (answer.component, answer.reason) == (1, "largest idle site is a with 8")


@pytest.mark.parametrize("policy", [close_to_files, worst_fit])
def test_a_file_that_nobody_holds_is_a_reason(policy: type) -> None:
    request = PlacementRequest(parts=parts(1, size_bytes=5))
    answer = policy(request, grid({"a": 8}))
    assert isinstance(answer, Unplaceable)
    assert "data" in answer.reason


def test_s_scans_of_high_come_before_one_of_low() -> None:
    found = "".join(turn(scan, 2).value[0] for scan in range(7))
    assert found == "hhlhhlh"
    assert "".join(turn(scan, 1).value[0] for scan in range(4)) == "hlhl"


# --- ICP ---


def question(
    *pending: tuple[int, str | None],
    held: int = 0,
    threshold: float = 0.0,
    remaining_s: float = 100.0,
    priority: Priority = Priority.LOW,
    preempt: str = "component",
    victims: tuple[Victim, ...] = (),
    file: FileName | None = None,
) -> ClaimQuestion:
    return ClaimQuestion(
        components=held + len(pending),
        held=held,
        pending=tuple(
            PendingPart(
                component=index,
                processors=n,
                site=None if site is None else SiteName(site),
                fixed=None,
                size_bytes=100 if file else 0,
                file=file,
            )
            for index, (n, site) in enumerate(pending)
        ),
        user=UserName("ann"),
        priority=priority,
        remaining_s=remaining_s,
        threshold=threshold,
        preempt=preempt,
        victims=victims,
        preemptible=(A, B, C),
    )


def victim(name: str, start_at: float, **held: int) -> Victim:
    return Victim(
        job=JobId(name),
        start_at=start_at,
        held=tuple((SiteName(site), n) for site, n in held.items()),
    )


def test_what_can_start_is_claimed_and_the_rest_waits() -> None:
    plan = incremental(question((4, "a"), (4, "b")), grid({"a": 4, "b": 3}), close_to_files)
    assert (plan.claims, plan.moves, plan.fraction) == ((0,), (), 0.5)


def test_below_the_threshold_nothing_is_claimed() -> None:
    asked = question((4, "a"), (4, "b"), threshold=0.75)
    plan = incremental(asked, grid({"a": 4, "b": 3, "c": 9}), close_to_files)
    assert (plan.claims, plan.moves, plan.fraction) == ((), (), 0.5)


def test_what_is_held_counts_for_the_threshold() -> None:
    asked = question((4, "a"), (4, "b"), held=2, threshold=0.75)
    assert incremental(asked, grid({"a": 4, "b": 3}), close_to_files).claims == (0,)


def test_atomic_claiming_takes_all_or_nothing() -> None:
    asked = question((4, "a"), (4, "b"), threshold=1.0)
    assert incremental(asked, grid({"a": 4, "b": 3}), close_to_files).claims == ()
    assert incremental(asked, grid({"a": 4, "b": 4}), close_to_files).claims == (0, 1)


def test_a_blocked_component_moves_only_where_its_file_arrives_by_the_start() -> None:
    view = {"a": 0, "b": 0, "c": 9}
    slow = question((4, "b"), remaining_s=9.0, file=FILE)
    assert incremental(slow, grid(view, at=("a",)), close_to_files).moves == ()
    quick = question((4, "b"), remaining_s=10.0, file=FILE)
    moves = incremental(quick, grid(view, at=("a",)), close_to_files).moves
    assert [(move.site, move.source) for move in moves] == [(C, A)]


def test_victims_are_the_latest_starts_and_no_more_than_needed() -> None:
    asked = question(
        (6, "a"),
        priority=Priority.HIGH,
        victims=(victim("v3", 30, a=4), victim("v2", 20, b=9), victim("v1", 10, a=4)),
    )
    plan = incremental(asked, grid({"a": 3, "b": 0}), close_to_files)
    assert (plan.preempting, plan.victims) == ((0,), ("v3",))
    plan = incremental(asked, grid({"a": 0, "b": 0}), close_to_files)
    assert plan.victims == ("v3", "v1")


def test_nobody_is_preempted_when_it_would_not_suffice() -> None:
    asked = question((6, "a"), priority=Priority.HIGH, victims=(victim("v", 1, a=4),))
    plan = incremental(asked, grid({"a": 1}), close_to_files)
    assert (plan.preempting, plan.victims) == ((), ())


def test_low_priority_preempts_nobody() -> None:
    asked = question((6, "a"), victims=(victim("v", 1, a=9),))
    assert incremental(asked, grid({"a": 0}), close_to_files).victims == ()


@pytest.mark.parametrize(("preempt", "found"), [("component", ("v",)), ("complete", ())])
def test_complete_preempts_only_for_all_components(preempt: str, found: tuple[str, ...]) -> None:
    asked = question(
        (6, "a"),
        (6, "b"),
        priority=Priority.HIGH,
        preempt=preempt,
        victims=(victim("v", 1, a=9),),
    )
    assert incremental(asked, grid({"a": 0, "b": 0}), close_to_files).victims == found
