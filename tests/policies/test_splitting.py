"""Splits of flexible jobs, against all splits there are, and the policies that choose sites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest

from koala.core.model.grid import (
    Assignment,
    GridView,
    Part,
    Placement,
    PlacementRequest,
    Site,
    SiteFacts,
    SiteView,
    Unplaceable,
)
from koala.core.model.job_spec import Split
from koala.core.model.values import FileName, SiteName
from koala.core.splitting import Room, emptiest_first, shares_of
from koala.errors import InvalidAnswerError
from koala.policies import chosen
from koala.policies.answers import read_placement
from koala.policies.placement.cluster_minimization import cm, fcm
from koala.policies.placement.communication import communication

A, B, C, D = (SiteName(name) for name in "abcd")


def best_of(split: Split, rooms: list[Room]) -> tuple[int, int] | None:
    """The largest total of any split, and the fewest sites for it, by trying all."""
    found: dict[int, int] = {}
    counts = [range(min(r.slots, r.processors // split.part_min) + 1) for r in rooms]
    for parts in product(*counts):
        most = sum(
            min(room.processors, n * split.part_max) for room, n in zip(rooms, parts, strict=True)
        )
        total = min(split.total, most)
        is_allowed = 0 < sum(parts) <= split.parts_max and total >= sum(parts) * split.part_min
        if is_allowed and total >= split.least:
            found[total] = min(found.get(total, len(rooms)), sum(n > 0 for n in parts))
    return max(found.items()) if found else None


def test_a_split_is_the_largest_at_the_fewest_sites_within_all_bounds() -> None:
    random = Random(40)
    for _ in range(2000):
        low = random.randint(1, 4)
        high, total = random.randint(low, low + 6), random.randint(1, 24)
        least = random.choice((total, random.randint(1, total)))
        split = Split(
            total=total,
            least=least,
            part_min=low,
            part_max=high,
            parts_max=random.randint(1, 5),
        )
        rooms = [
            Room(SiteName(f"s{n}"), size := random.randint(0, 14), random.choice((size, 1, 2)))
            for n in range(random.randint(1, 4))
        ]
        rooms = emptiest_first(split, rooms)
        shares = shares_of(split, rooms)
        best = best_of(split, rooms)
        if shares is None:
            assert best is None, (split, rooms)
            continue
        used: dict[int, list[int]] = {}
        for share in shares:
            assert low <= share.processors <= high, (split, rooms, shares)
            used.setdefault(share.room, []).append(share.processors)
        assert len(shares) <= split.parts_max
        for room, sizes in used.items():
            assert sum(sizes) <= rooms[room].processors
            assert len(sizes) <= rooms[room].slots
        assert (sum(map(sum, used.values())), len(used)) == best, (split, rooms, shares)


def a_view(**idle: int) -> GridView:
    """Sites with so many idle processors, a and b close to each other, and all others far."""
    sites = [SiteView(name=SiteName(name), processors=64, idle=n) for name, n in idle.items()]
    known = {
        view.name: Site(name=view.name, facts=SiteFacts(processors=64), rtt_s=0.1) for view in sites
    }
    return GridView(
        sites,
        replicas={},
        bandwidth={(A, B): 1e9, (B, A): 1e9},
        bandwidth_default=1e8,
        round_trips={(A, B): 0.001},
        known=known,
    )


def placed(policy: Callable[..., Any], view: GridView, *sizes: int) -> list[tuple[str, int]]:
    parts = tuple(Part(component=n, processors=size) for n, size in enumerate(sizes))
    answer = policy(PlacementRequest(parts=parts), view)
    assert isinstance(answer, Placement), answer
    return [(a.site, sizes[a.component]) for a in answer.assignments]


def split(policy: Callable[..., Any], view: GridView, total: int) -> list[tuple[str, int]]:
    answer = policy(a_request(total), view)
    assert isinstance(answer, Placement), answer
    return [(a.site, a.processors) for a in answer.assignments]


def a_request(total: int, **bounds: Any) -> PlacementRequest:
    wide: dict[str, Any] = {"least": total, "part_max": total, "parts_max": total}
    return PlacementRequest(
        parts=(Part(component=0, processors=1),), split=Split(total=total, **{**wide, **bounds})
    )


def test_cluster_minimization_fills_a_site_before_the_next() -> None:
    assert placed(cm, a_view(a=8, b=20), 4, 4, 4, 8) == [
        ("b", 4),
        ("b", 4),
        ("b", 4),
        ("b", 8),
    ]
    assert placed(cm, a_view(a=8, b=9), 4, 4, 4) == [("b", 4), ("b", 4), ("a", 4)]


def test_flexible_cluster_minimization_takes_the_emptiest_sites() -> None:
    assert split(fcm, a_view(a=8, b=10, c=12, d=11), 24) == [("c", 12), ("d", 11), ("b", 1)]


def test_by_communication_close_sites_come_before_emptier_ones() -> None:
    """The round trip of a and b was measured; others are by way of the daemon, 0.2 s."""
    view = a_view(a=12, b=12, c=15, d=14)
    assert split(communication, view, 24) == [("a", 12), ("b", 12)]
    assert sorted(placed(communication, view, 12, 12)) == [("a", 12), ("b", 12)]
    assert split(communication, view, 15) == [("c", 15)]


@pytest.mark.parametrize("policy", [fcm, communication])
def test_a_refusal_says_what_could_be_had(policy: Callable[..., Any]) -> None:
    answer = policy(a_request(24, part_min=4), a_view(a=8, b=3, c=6))
    assert isinstance(answer, Unplaceable)
    assert answer.reason.startswith("at most 14 could be had")
    answer = policy(a_request(24, part_min=9), a_view(a=8, b=3))
    assert isinstance(answer, Unplaceable)
    assert "no site has 9 for a component (the most is 8 at a)" in answer.reason


@pytest.mark.parametrize("policy", [fcm, communication])
def test_a_refusal_names_files_that_no_site_has(policy: Callable[..., Any]) -> None:
    lacking = Part(component=0, processors=1, file=FileName("sea"), size_bytes=10)
    answer = policy(replace(a_request(24), parts=(lacking,)), a_view(a=8, b=30))
    assert isinstance(answer, Unplaceable)
    assert answer.reason == "no usable site holds its input file sea"
    assert policy(a_request(24), a_view()).reason == "no site is usable now"


def halves(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """A policy of another package: equal halves, each at a site of its own."""
    if request.split is None:
        return cm(request, view)
    size = request.split.total // 2
    sites = [site for site, idle in view.idle().items() if idle >= size][:2]
    return Placement(
        assignments=tuple(
            Assignment(component=n, site=site, processors=size) for n, site in enumerate(sites)
        )
    )


def test_a_policy_of_another_package_may_split_and_fcm_does_it_for_the_rest() -> None:
    view = a_view(a=12, b=20)
    assert split(chosen(placement=halves).split, view, 20) == [("b", 20)]
    halves.splits = True  # type: ignore[attr-defined]
    assert split(chosen(placement=halves).split, view, 20) == [("a", 10), ("b", 10)]
    assert split(chosen(placement="WF").split, view, 20) == [("b", 20)]
    assert split(chosen(placement="communication").split, view, 20) == [("b", 20)]


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((30,), "does not fit"),
        ((10, 13), "expected 24 processors in at most 3 components"),
        ((3, 21), "expected 24 processors in at most 3 components of 4"),
        ((6, 6, 6, 6), "too many"),
    ],
)
def test_a_split_out_of_bounds_is_no_answer(sizes: tuple[int, ...], words: str) -> None:
    view = a_view(a=25, b=25)
    answer = Placement(
        assignments=tuple(
            Assignment(component=n, site=A, processors=size) for n, size in enumerate(sizes)
        )
    )
    request = a_request(sum(sizes) if sizes == (30,) else 24, part_min=4, parts_max=3)
    with pytest.raises(InvalidAnswerError, match=words):
        read_placement(answer, request, view)
    fits = Placement(assignments=(replace(answer.assignments[0], site=B, processors=24),))
    assert read_placement(fits, a_request(24), view) == fits
