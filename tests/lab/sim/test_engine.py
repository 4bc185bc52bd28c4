"""The order of the heap: instant, then rank, then number."""

from __future__ import annotations

from functools import partial

from koala.lab.sim.engine import Engine


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


def test_some_calls_end_with_the_one_that_pauses_or_at_the_most() -> None:
    engine, seen = Engine(), list[int]()
    for number in range(5):
        engine.at(float(number), partial(seen.append, number))
    engine.at(1.0, engine.pause)
    assert engine.run_some(3.0, most=10)
    assert (seen, engine.now) == ([0, 1], 1.0)
    assert engine.run_some(3.0, most=1)
    assert seen == [0, 1, 2]
    assert not engine.run_some(3.0, most=10)
    assert seen == [0, 1, 2, 3], "a pause holds for one call of it"


def test_the_last_of_an_instant_knows_it() -> None:
    engine, told = Engine(), list[bool]()
    for instant in (1.0, 1.0, 2.0):
        engine.at(instant, lambda: told.append(engine.is_last_of_instant))
    engine.run(3.0)
    assert told == [False, True, True]
