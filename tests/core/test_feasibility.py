"""Fitting a job on an empty grid: compared with all ways to place it, and its explanation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from random import Random

import pytest

from koala.core.feasibility import (
    ANY,
    Capacity,
    Requirement,
    components_per_site_max,
    describe_misfit,
    may_fit,
)
from koala.core.model.values import JobId, SiteName
from koala.policies import chosen
from koala.views.explain import why
from tests.core.conftest import Begin
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

VU = SiteName("vu")


def rooms(*processors: float) -> list[Capacity]:
    return [Capacity(SiteName(f"s{index}"), size) for index, size in enumerate(processors)]


def pieces(*processors: int) -> list[Requirement]:
    return [Requirement(size) for size in processors]


def can_be(found: Sequence[tuple[Requirement, Capacity]]) -> bool:
    """Check that each piece may be where it is, with the others."""
    for room in {room for _, room in found}:
        here = [piece for piece, where in found if where == room]
        if sum(piece.processors for piece in here) > room.processors or len(here) > room.slots:
            return False
        if any(piece.site not in (None, room.name) for piece in here):
            return False
        if any(piece.sites and room.name not in piece.sites for piece in here):
            return False
    return True


def tried_out(wanted: Sequence[Requirement], needed: int, there: Sequence[Capacity]) -> bool:
    """The same, by trying everything."""
    for count in range(needed, len(wanted) + 1):
        for some in combinations(wanted, count):
            left_out = [piece for piece in wanted if not any(piece is one for one in some)]
            if all(piece.is_optional for piece in left_out) and any(
                can_be(list(zip(some, where, strict=True)))
                for where in product(there, repeat=count)
            ):
                return True
    return False


def test_nothing_is_refused_that_trying_everything_finds() -> None:
    for seed in range(250):
        _compare_with_trying_everything(seed)


def _compare_with_trying_everything(seed: int) -> None:
    random = Random(seed)
    there = [
        Capacity(SiteName(f"s{index}"), random.randint(1, 12), random.choice((ANY, ANY, 1, 2)))
        for index in range(random.randint(1, 3))
    ]
    names = [None, None, None, random.choice([*there, *rooms(1)]).name]
    all_may = random.random() < 0.3
    limits = [(), (), tuple(random.sample([room.name for room in there], 1)), (there[0].name, VU)]
    wanted = [
        Requirement(
            random.randint(1, 8),
            random.choice(names),
            all_may or random.random() < 0.3,
            random.choice(limits),
        )
        for _ in range(random.randint(1, 4))
    ]
    must = sum(not piece.is_optional for piece in wanted)
    needed = random.randint(1, len(wanted)) if all_may else max(1, must)
    assert may_fit(wanted, needed, there) or not tried_out(wanted, needed, there), seed


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        (pieces(7, 7), rooms(8, 5)),
        (pieces(5, 4, 4), rooms(8, 4)),
        ([Requirement(5, VU), Requirement(4, VU)], [Capacity(VU, 8)]),
        ([Requirement(5, VU), *pieces(4)], [Capacity(VU, 8)]),
        (pieces(1, 1), [Capacity(VU, 8, 1)]),
        ([Requirement(1, VU)], rooms(8)),
        ([Requirement(1, VU), Requirement(1, sites=(VU,))], [Capacity(VU, 8, 1), *rooms(9)]),
        ([Requirement(5, sites=(VU,)), Requirement(4, sites=(VU,))], [Capacity(VU, 8), *rooms(9)]),
    ],
)
def test_what_is_too_large_too_many_or_too_much_does_not_fit(
    wanted: list[Requirement], there: list[Capacity]
) -> None:
    assert not may_fit(wanted, len(wanted), there)


def test_many_components_of_a_size_are_counted_whatever_their_number() -> None:
    assert may_fit(pieces(*[3] * 1000), 1000, rooms(*[10] * 334))
    assert not may_fit(pieces(*[3] * 1000), 1000, rooms(*[10] * 333))


def test_a_policy_that_uses_each_site_once_is_known_by_what_it_does() -> None:
    names = ("CF", "WF", "WF-distinct", "NoNetwork", "PreferLocal", "Service")
    found = [name for name in names if components_per_site_max(chosen(placement=name).place) == 1]
    assert found == ["WF-distinct"]


@pytest.mark.parametrize(
    ("wanted", "there", "said"),
    [
        (
            pieces(144, 144, 144),
            [Capacity(VU, 144), *rooms(36, 36)],
            "its 3 components (3 x 144 = 432 processors) do not fit into 3 idle sites: the largest"
            " is vu with 144, all have 216 (vu 144, s0 36, s1 36)",
        ),
        (
            [Requirement(8, VU), *pieces(6, 6)],
            [Capacity(VU, 8), Capacity(SiteName("b"), 10, 1)],
            "its 3 components (8 at vu + 2 x 6 = 20 processors) do not fit into 2 idle sites: the"
            " largest is b with 10, all have 18 (b 10 for one component, vu 8)",
        ),
        (
            [Requirement(9, sites=(VU, SiteName("s0")))],
            rooms(4),
            "its component (9 processors at vu or s0) does not fit into s0, which has 4",
        ),
    ],
)
def test_it_is_said_what_is_asked_and_what_there_is(
    wanted: list[Requirement], there: list[Capacity], said: str
) -> None:
    assert describe_misfit(wanted, len(wanted), there) == said


# --- why ------------------------------------------------------------------------------------------


def said(script: Script, job: str) -> str:
    return "\n".join(why(script.scheduler, JobId(job), script.now))


def test_of_a_job_that_never_fits_no_idle_site_is_named_as_if_it_were_soon(script: Script) -> None:
    """It was accepted while a larger site was there."""
    script.tell(a_site("a", 12), a_site("b", 12), a_site("c", 10), a_job("j1", 12, 12, 12))
    told = said(script, "j1")
    assert (
        "its 3 components (3 x 12 = 36 processors) do not fit into 3 idle sites: the largest is a"
        " with 12, all have 34 (a 12, b 12, c 10); it cannot start before a site grows or another"
        " registers; 1 placement try" in told
    )
    assert "largest idle" not in told


def test_what_a_policy_does_not_find_though_it_is_there_is_told(begin: Begin) -> None:
    """5 at b, 4 and 4 at a; a policy that looks for the emptiest site puts the 5 at a."""
    doubt = "the placement policy would find no place for it either if nothing else ran"
    script = begin().tell(a_site("a", 8), a_site("b", 5)).report("b", 0)
    script.tell(a_job("j1", 5, 4, 4))
    assert f"{doubt}: component 2 (4 processors): largest" in said(script, "j1")
    script.tell(a_job("j2", 8, 5))
    assert doubt not in said(script, "j2")


def test_a_quorum_counts_those_that_it_needs(begin: Begin) -> None:
    script = begin().tell(a_site("a", 8)).report("a", 0)
    script.tell(a_job("j1", 8, 8, quorum=1))
    assert "do not fit" not in said(script, "j1")
    script.tell(a_job("j2", a_component(8, "a"), 8, 8, quorum=2))
    assert "of which it needs 2, do not fit into a, which has 8" in said(script, "j2")
