"""NoNetwork, PreferLocal and Service as functions: values in, a value out (Hints 4)."""

from __future__ import annotations

from typing import Any

import pytest

from koala.core.model.grid import (
    Assignment,
    Demand,
    GridView,
    Part,
    Placement,
    PlacementRequest,
    Replica,
    SiteView,
    Unplaceable,
)
from koala.core.model.values import FileName, SiteName
from koala.policies import named

FILE = FileName("data")
A, B, C = SiteName("a"), SiteName("b"), SiteName("c")
POLICIES = ("NoNetwork", "PreferLocal", "Service")
IO = Demand(preferred_mips=1000.0, length_mi=1000.0, hint="io", deviation=0.5)
CPU = Demand(preferred_mips=1000.0, length_mi=1000.0, hint="cpu", deviation=0.5)


def grid(
    mips: dict[SiteName, float],
    *,
    free: dict[tuple[SiteName, SiteName], float] | None = None,
    at: tuple[SiteName, ...] = (A,),
    idle: int = 9,
    slots: dict[SiteName, int] | None = None,
) -> GridView:
    """Sites of this speed, what is left of the links, and where the file is."""
    return GridView(
        [
            SiteView(name=name, processors=9, idle=idle, mips=rate, slots=(slots or {}).get(name))
            for name, rate in mips.items()
        ],
        replicas={FILE: Replica(size_bytes=100, sites=at)},
        bandwidth={},
        bandwidth_default=50.0,
        free=free,
    )


def ask(
    policy: str,
    view: GridView,
    demand: Demand | None = IO,
    *,
    parts: int = 1,
    file: FileName | None = FILE,
    **more: Any,
) -> Placement | Unplaceable:
    request = PlacementRequest(
        parts=tuple(
            Part(component=n, processors=1, size_bytes=100, file=file) for n in range(parts)
        ),
        demand=demand,
        **more,
    )
    answer: Placement | Unplaceable = named("placement", policy)(request, view)
    return answer


def chosen(answer: Placement | Unplaceable) -> Assignment:
    assert isinstance(answer, Placement), answer
    return answer.assignments[0]


def test_no_network_takes_the_strongest_local_site_and_looks_at_no_link() -> None:
    view = grid({A: 1200.0, B: 2000.0}, free={(A, A): 1.0})
    found = chosen(ask("NoNetwork", view))
    assert (found.site, found.mips, found.booked_bps) == (A, 1200.0, 0.0)


def test_no_network_goes_elsewhere_only_when_it_must_and_takes_the_preferred_rate_as_hard() -> None:
    assert chosen(ask("NoNetwork", grid({A: 999.0, B: 1001.0, C: 1500.0}))).site == C
    assert isinstance(ask("NoNetwork", grid({A: 999.0, B: 900.0})), Unplaceable)


def test_prefer_local_books_what_keeps_the_rate_and_no_more() -> None:
    """MIPSeff = min(1500, 1000 MI x 130 B/s / 100 B) = 1300: the link decides, all of it goes."""
    narrow = chosen(ask("PreferLocal", grid({A: 1500.0}, free={(A, A): 130.0})))
    assert (narrow.mips, narrow.booked_bps) == (1300.0, 130.0)
    wide = chosen(ask("PreferLocal", grid({A: 1500.0}, free={(A, A): 500.0})))
    assert (wide.mips, wide.booked_bps) == (1500.0, 150.0)


def test_prefer_local_prefers_it_though_another_site_is_faster() -> None:
    view = grid({A: 1100.0, B: 9000.0}, free={(A, A): 500.0, (A, B): 500.0})
    assert chosen(ask("PreferLocal", view)).site == A
    starved = grid(
        {A: 1100.0, B: 9000.0, C: 2000.0}, free={(A, A): 50.0, (A, B): 110.0, (A, C): 150.0}
    )
    found = chosen(ask("PreferLocal", starved))
    assert (found.site, found.source, found.mips) == (C, A, 1500.0)


def test_service_sends_a_cpu_job_where_it_is_fastest_down_to_what_it_accepts() -> None:
    view = grid({A: 700.0, B: 800.0}, free={(A, A): 500.0, (A, B): 500.0})
    assert chosen(ask("Service", view, CPU)).site == B
    assert isinstance(ask("Service", grid({A: 499.0, B: 400.0}), CPU), Unplaceable)
    assert chosen(ask("Service", grid({A: 500.0, B: 400.0}), CPU)).mips == 500.0


def test_service_keeps_an_io_job_local_down_to_what_it_accepts_and_moves_it_only_at_the_whole() -> (
    None
):
    view = grid({A: 600.0, B: 5000.0}, free={(A, A): 500.0, (A, B): 500.0})
    assert chosen(ask("Service", view, IO)).site == A
    slow = grid({A: 400.0, B: 5000.0}, free={(A, A): 500.0, (A, B): 99.0})
    assert isinstance(ask("Service", slow, IO), Unplaceable)
    fast = grid({A: 400.0, B: 5000.0}, free={(A, A): 500.0, (A, B): 100.0})
    assert (chosen(ask("Service", fast, IO)).site, chosen(ask("Service", fast, IO)).mips) == (
        B,
        1000.0,
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_what_rounding_leaves_is_enough(policy: str) -> None:
    assert chosen(ask(policy, grid({A: 1000.0 - 1e-9}))).site == A


@pytest.mark.parametrize("policy", ["PreferLocal", "Service"])
def test_a_link_that_is_booked_to_the_last_byte_takes_nobody(policy: str) -> None:
    lazy = Demand(preferred_mips=0.0, length_mi=1000.0, hint="io", deviation=1.0)
    view = grid({A: 1000.0}, free={(A, A): 0.0})
    assert isinstance(ask(policy, view, lazy), Unplaceable)


@pytest.mark.parametrize("policy", POLICIES)
def test_files_that_no_site_holds_together_come_from_several_and_book_nothing(policy: str) -> None:
    """400 bytes over a link of 50 bytes a second take 8 s, which is the rate: 125 MIPS."""
    other = FileName("other")
    view = GridView(
        [SiteView(name=name, processors=9, idle=9, mips=1000.0) for name in (A, B)],
        replicas={
            FILE: Replica(size_bytes=100, sites=(A,)),
            other: Replica(size_bytes=400, sites=(B,)),
        },
        bandwidth={},
        bandwidth_default=50.0,
        free={(A, B): 500.0, (B, A): 500.0},
    )
    part = Part(component=0, processors=1, size_bytes=500, site=A, file=(FILE, other))
    demand = Demand(preferred_mips=0.0, length_mi=1000.0)
    request = PlacementRequest(parts=(part,), demand=demand)
    found = chosen(named("placement", policy)(request, view))
    assert (found.site, found.source, found.booked_bps) == (A, B, 0.0)
    assert found.transfer_s == pytest.approx(8.0)
    assert found.mips == pytest.approx(125.0 if policy != "NoNetwork" else 1000.0)


def test_job_slots_bound_the_parts_at_a_site() -> None:
    view = grid({A: 2000.0, B: 1500.0}, slots={A: 1})
    answer = ask("NoNetwork", view, parts=2)
    assert isinstance(answer, Placement)
    assert [a.site for a in answer.assignments] == [A, B]
    full = ask("NoNetwork", grid({A: 2000.0}, slots={A: 0}))
    assert isinstance(full, Unplaceable)
    assert "largest idle site is a with 0" in full.reason


def test_without_a_length_nothing_is_booked_and_the_estimate_of_the_link_counts() -> None:
    plain = Demand(preferred_mips=1000.0)
    view = grid({B: 1500.0, A: 100.0}, free={(A, B): 500.0})
    found = chosen(ask("PreferLocal", view, plain))
    assert (found.site, found.booked_bps, found.transfer_s) == (B, 0.0, 2.0)


def test_a_transfer_at_the_booked_rate_must_be_over_in_time() -> None:
    view = grid({A: 10.0, B: 1000.0}, free={(A, B): 500.0})
    assert chosen(ask("PreferLocal", view, transfer_s_max=1.0)).transfer_s == 1.0
    assert isinstance(ask("PreferLocal", view, transfer_s_max=0.99), Unplaceable)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_without_a_file_has_the_site_of_its_queue_as_its_own(policy: str) -> None:
    plain = Demand(preferred_mips=1000.0)
    view = grid({A: 5000.0, B: 1000.0})
    assert chosen(ask(policy, view, plain, file=None, home=B)).site == B
    assert chosen(ask(policy, view, plain, file=None)).site == A


@pytest.mark.parametrize("policy", POLICIES)
def test_without_any_demand_a_job_is_placed_where_it_fits(policy: str) -> None:
    assert chosen(ask(policy, grid({A: 5.0}), None)).site == A
    refused = ask(policy, grid({A: 5.0}, idle=0), None)
    assert isinstance(refused, Unplaceable)
    assert refused.reason == "largest idle site is a with 0"


def test_a_refusal_names_the_best_rate() -> None:
    refused = ask("Service", grid({A: 300.0, B: 400.0}), CPU)
    assert isinstance(refused, Unplaceable)
    assert refused.reason == (
        "the best rate now is 400 MIPS, at b; 1000 are preferred (hint cpu, deviation 0.5)"
    )
