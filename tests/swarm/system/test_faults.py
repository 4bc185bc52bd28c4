"""Tests of the fault plan, and of the simulated network under faults."""

from __future__ import annotations

from koala.lab.sim.engine import Engine
from tests.swarm.system.faults import Chances, Fault, FaultPlan, Incident
from tests.swarm.system.network import Network, Pipe


def test_a_plan_is_a_function_of_its_seed_and_is_quiet_afterwards() -> None:
    chances = Chances(cut=1.0, late=1.0, incidents_per_s=1.0)
    plans = [FaultPlan(9, chances=chances, quiet_at=50.0) for _ in range(2)]
    assert plans[0].happenings == plans[1].happenings
    assert plans[0].happenings
    assert all(happening.at < 50.0 for happening in plans[0].happenings)
    assert plans[0].strikes("cut", 49.9)
    assert not plans[0].strikes("cut", 50.0)
    other = FaultPlan(10, chances=chances, quiet_at=50.0, kinds=(Incident.DRAIN,))
    assert {happening.kind for happening in other.happenings} == {Incident.DRAIN}


def test_of_all_faults_only_those_that_are_named_happen() -> None:
    chances = Chances(cut=0.5, disk_error=0.5, incidents_per_s=0.1)

    def struck(only: frozenset[Fault] | None) -> list[Fault]:
        plan = FaultPlan(9, chances=chances, quiet_at=50.0, only=only)
        happened = [("happening", n) for n, _ in enumerate(plan.happenings)]
        for number in range(20):
            happened += [
                (kind, number) for kind in ("cut", "disk_error") if plan.strikes(kind, 1.0)
            ]
        return happened

    every = struck(None)
    kinds = {kind for kind, _ in every}
    assert kinds == {"happening", "cut", "disk_error"}
    some = [fault for fault in every if fault[0] != "happening"][::2]
    assert struck(frozenset(some)) == some
    assert struck(frozenset()) == []


def a_pipe() -> tuple[Engine, Network, Pipe[str], list[tuple[float, str]]]:
    engine = Engine()
    network = Network(engine, FaultPlan(1, latency_s=1.0))
    pipe: Pipe[str] = Pipe(network, "a", "b")
    heard: list[tuple[float, str]] = []
    pipe.ends[1].take = lambda message: heard.append((engine.now, message))
    pipe.ends[1].lost = lambda: heard.append((engine.now, "lost"))
    return engine, network, pipe, heard


def test_a_connection_keeps_its_order_and_a_partition_holds_it_back() -> None:
    engine, network, pipe, heard = a_pipe()
    network.hold_back("a", "b", 30.0)
    for word in ("one", "two"):
        pipe.ends[0].send(word)
    network.hold_back("b", "a", 90.0)  # the other way
    pipe.ends[0].close()
    engine.run(100.0)
    assert [word for _, word in heard] == ["one", "two", "lost"]
    assert all(at == 30.0 for at, _ in heard)


def test_what_travels_in_a_connection_that_is_cut_is_lost() -> None:
    engine, _, pipe, heard = a_pipe()
    pipe.ends[0].send("one")
    pipe.cut()
    pipe.ends[0].send("two")
    engine.run(100.0)
    assert [word for _, word in heard] == ["lost"]


def test_a_connection_that_is_half_open_tells_nobody() -> None:
    engine, _, pipe, heard = a_pipe()
    pipe.cut(is_silent=True)
    pipe.ends[0].send("one")
    engine.run(1000.0)
    assert heard == []
    assert pipe.ends[0].is_believed
