"""The order of the heap: instant, then rank, then number."""

from __future__ import annotations

from koala.sim.engine import Engine, Rank


def test_outcomes_go_before_wake_ups_and_both_by_number() -> None:
    engine, seen = Engine(), list[str]()
    engine.at(5.0, lambda: seen.append("wake"), rank=Rank.WAKE)
    engine.at(5.0, lambda: seen.append("first"))
    engine.at(5.0, lambda: seen.append("second"))
    engine.at(4.0, lambda: seen.append("before"))
    engine.run(5.0)
    assert seen == ["before", "first", "second", "wake"]


def test_a_call_that_was_taken_back_is_not_made() -> None:
    engine, seen = Engine(), list[str]()
    entry = engine.after(1.0, lambda: seen.append("never"))
    engine.after(2.0, lambda: seen.append("later"))
    entry.cancel()
    assert engine.next_at == 2.0
    engine.run(10.0)
    assert (seen, engine.now) == (["later"], 10.0)
    assert engine.next_at is None


def test_the_past_is_now_and_never_comes_for_what_is_infinite() -> None:
    engine, seen = Engine(7.0), list[float]()
    engine.at(3.0, lambda: seen.append(engine.now))
    engine.at(float("inf"), lambda: seen.append(-1.0))
    engine.run(100.0)
    assert seen == [7.0]
