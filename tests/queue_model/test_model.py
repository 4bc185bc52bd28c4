"""The model of a local manager: by hand, and job by job against a plainly right reference."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koala.queue_model import Discipline, LocalQueue, local_queue
from tests.lrm.reference_queues import PlainQueue, TraceJob, expected_start
from tests.lrm.reference_queues import start_times as starts_on

PROCESSORS = 8


@st.composite
def traces(draw: st.DrawFn, *, overrun: bool) -> list[TraceJob]:
    """Crowded: few distinct instants and durations, so that ties and full sites are the rule."""
    small = st.integers(0, 6)
    jobs = []
    at = 0
    for _ in range(draw(st.integers(1, 40))):
        at += draw(st.sampled_from([0, 0, 0, 1, 2, 5]))
        run_s = 1 + draw(small)
        estimate_s = max(1, run_s + draw(small) - 3) if overrun else run_s + draw(small)
        jobs.append(TraceJob(at, draw(st.integers(1, PROCESSORS)), run_s, estimate_s))
    return jobs


def start_times(jobs: list[TraceJob], *, processors: int, discipline: Discipline) -> list[float]:
    return starts_on(local_queue(processors=processors, discipline=discipline), jobs)


@pytest.mark.parametrize(
    ("discipline", "overrun"),
    [
        *((discipline, False) for discipline in Discipline),
        (Discipline.EASY, True),
        (Discipline.CONSERVATIVE, True),
    ],
)
@settings(max_examples=50)
@given(data=st.data())
def test_every_job_starts_when_the_definition_says(
    discipline: Discipline, overrun: bool, data: st.DataObject
) -> None:
    """Expected ends move with the clock where runs exceed estimates."""
    jobs = data.draw(traces(overrun=overrun))
    starts = start_times(jobs, processors=PROCESSORS, discipline=discipline)
    assert starts == starts_on(PlainQueue(discipline, PROCESSORS), jobs)


@pytest.mark.parametrize("discipline", list(Discipline))
@pytest.mark.parametrize("seed", range(3))
def test_a_deep_queue_is_no_other_than_a_short_one(discipline: Discipline, seed: int) -> None:
    """Hundreds wait, so blocks of the queue are passed over, split, joined and emptied."""
    random = Random(seed)
    jobs = []
    # The plain conservative queue is too slow for more.
    for number in range(60 if discipline is Discipline.CONSERVATIVE else 500):
        run_s = random.choice([1, 5, 20, 100])
        estimate_s = run_s + random.choice([0, 0, 3, 50])
        jobs.append(TraceJob(number // 10, random.randint(1, 64), run_s, estimate_s))
    starts = start_times(jobs, processors=64, discipline=discipline)
    assert starts == starts_on(PlainQueue(discipline, 64), jobs)


# By hand ------------------------------------------------------------------------------------------


def test_easy_starts_a_short_job_that_ends_at_the_shadow_and_not_one_that_ends_later() -> None:
    jobs = [
        TraceJob(0, 6, 10, 10),
        TraceJob(0, 8, 5, 5),  # the head: its shadow is 10, extra is 0
        TraceJob(0, 2, 11, 11),  # one second too long
        TraceJob(0, 2, 10, 10),  # ends exactly at the shadow
    ]
    assert start_times(jobs, processors=8, discipline=Discipline.EASY) == [0, 10, 15, 0]


# The machine --------------------------------------------------------------------------------------


def a_queue(discipline: Discipline = Discipline.EASY) -> LocalQueue[str]:
    return local_queue(processors=8, discipline=discipline)


def test_a_job_larger_than_the_site_is_refused_and_changes_nothing() -> None:
    queue = a_queue()
    with pytest.raises(ValueError, match="asks for 9 processors; 1 to 8"):
        queue.submit("large", processors=9, estimate_s=1)
    assert queue.waiting == 0
    assert queue.advance(0) == []


@given(
    traces(overrun=False), st.integers(1, PROCESSORS), st.sampled_from(list(Discipline)),
    st.sampled_from([2, 5, math.inf]),
)  # fmt: skip
def test_startable_is_exactly_what_starts(
    jobs: list[TraceJob], claim: int, discipline: Discipline, estimate_s: float
) -> None:
    """Ask, submit, see: the answer holds for every size, whatever the queue is."""
    queue: LocalQueue[int] = local_queue(processors=PROCESSORS, discipline=discipline)
    for index, job in enumerate(jobs):
        queue.submit(index, processors=job.processors, estimate_s=job.estimate_s)
    queue.advance(0)
    expected = queue.startable(0, estimate_s)
    queue.submit(-1, processors=claim, estimate_s=estimate_s)
    assert (queue.advance(0) == [-1]) == (claim <= expected)


def test_a_deep_queue_is_not_visited_at_every_event() -> None:
    """20,000 jobs behind one another: a scan of the whole queue an event would take minutes."""
    jobs = [TraceJob(0, 8, 1, 1) for _ in range(20_000)]
    starts = start_times(jobs, processors=8, discipline=Discipline.FCFS)
    assert starts == list(range(20_000))


@pytest.mark.parametrize("discipline", list(Discipline))
@pytest.mark.parametrize("examples", [20, pytest.param(150, marks=pytest.mark.long)])
def test_what_is_remembered_between_passes_never_shows(
    discipline: Discipline, examples: int
) -> None:
    """Submissions, withdrawals, gates, early and late ends, jobs past the queue and processors that
    fail, in any order."""

    @settings(max_examples=examples)
    @given(data=st.data())
    def compare(data: st.DataObject) -> None:
        both_queues_agree(discipline, data)

    compare()


def both_queues_agree(discipline: Discipline, data: st.DataObject) -> None:
    """Check that the queue does what the plain one does, whatever happens to both."""
    queue: LocalQueue[int] = local_queue(processors=PROCESSORS, discipline=discipline)
    plain = PlainQueue(discipline, PROCESSORS)
    now = 0.0
    for key in range(data.draw(st.integers(1, 60))):
        now += data.draw(st.sampled_from([0, 0, 1, 3]))
        for each in happen(data, plain, key, now):
            name, arguments, keywords = each
            getattr(queue, name)(*arguments, **keywords)
            getattr(plain, name)(*arguments, **keywords)
        if data.draw(st.booleans()):
            is_settled, started = queue.is_settled(), queue.advance(now)
            assert started == plain.advance(now)
            assert not (is_settled and started)
            assert queue.idle == plain.idle
            assert queue.wake_at == plain.wake_at
        assert [*queue.order()] == [*plain.waiting]
        if data.draw(st.integers(0, 9)) == 0:
            starts = {each: expected_start(plain, each, now) for each in plain.waiting}
            assert queue.forecast(starts, now) == starts
    assert queue.advance(now) == plain.advance(now)


def happen(
    data: st.DataObject, plain: PlainQueue, key: int, now: float
) -> Iterator[tuple[str, tuple[int, ...], dict[str, float]]]:
    """Something that can happen to a queue in this state: a call of both."""
    what = [
        "submit", "submit", "submit", "put_back", "withdraw", "end", "occupy", "lose", "regain",
        "gate", "gate", "open",
    ]  # fmt: skip
    match data.draw(st.sampled_from(what)):
        case "submit" | "put_back" as name:
            size, estimate_s = data.draw(st.integers(1, PROCESSORS)), data.draw(st.integers(1, 9))
            yield name, (key,), {"processors": size, "estimate_s": estimate_s}
        case "withdraw" if plain.waiting:
            yield "withdraw", (data.draw(st.sampled_from(sorted(plain.waiting))),), {}
        case "gate" if plain.waiting:
            yield "gate", (data.draw(st.sampled_from(sorted(plain.waiting))),), {}
        case "open" if plain.waiting:
            yield "open", (data.draw(st.sampled_from(sorted(plain.gated or plain.waiting))),), {}
        case "end" if plain.running:
            yield "end", (data.draw(st.sampled_from(sorted(plain.running))),), {}
        case "occupy" if plain.idle:
            size = data.draw(st.integers(1, plain.idle))
            yield "occupy", (key,), {"processors": size, "until": now + 4}
        case "lose" if plain.idle:
            yield "lose", (data.draw(st.integers(1, plain.idle)),), {}
        case "regain" if plain.available < PROCESSORS:
            yield "regain", (data.draw(st.integers(1, PROCESSORS - plain.available)),), {}
        case _:
            pass  # nothing there to withdraw, to gate, to end, to occupy, to lose


@pytest.mark.parametrize("discipline", [Discipline.FCFS, Discipline.EASY])
@pytest.mark.parametrize("seed", range(2))
def test_gates_in_a_deep_queue_are_those_of_a_plain_one(discipline: Discipline, seed: int) -> None:
    """Hundreds wait, so blocks of the queue are left and entered in their middle."""
    random = Random(seed)
    queue: LocalQueue[int] = local_queue(processors=64, discipline=discipline)
    plain = PlainQueue(discipline, 64)
    gated_max = 0
    for key in range(900):
        for each in (queue, plain):
            each.submit(key, processors=1 + key * 7 % 64, estimate_s=1 + key * 13 % 50)
        for what in ("gate", "open", "end"):
            among = {"gate": plain.waiting, "open": plain.gated, "end": plain.running}[what]
            if among and random.random() < {"gate": 0.5, "open": 0.4, "end": 0.7}[what]:
                chosen = random.choice(sorted(among))
                getattr(queue, what)(chosen)
                getattr(plain, what)(chosen)
        assert queue.advance(key) == plain.advance(key)
        gated_max = max(gated_max, len(plain.gated))
    assert [*queue.order()] == [*plain.waiting]
    assert len(plain.waiting) - gated_max > 130
    asked = [*random.sample(sorted(plain.gated), 3), *random.sample(sorted(plain.eligible), 3)]
    starts = {each: expected_start(plain, each, 900) for each in asked}
    assert queue.forecast(asked, 900) == starts


def test_a_job_put_back_is_the_head_of_its_queue() -> None:
    """One that was stopped to make room goes on before all that wait."""
    queue: LocalQueue[str] = local_queue(processors=4, discipline=Discipline.FCFS)
    for key, processors in (("first", 4), ("second", 4)):
        queue.submit(key, processors=processors, estimate_s=10)
    assert queue.advance(0) == ["first"]
    queue.end("first")
    queue.occupy("claim", processors=2, until=20)
    queue.put_back("first again", processors=4, estimate_s=10)
    assert queue.advance(1) == []
    queue.end("claim")
    assert queue.advance(2) == ["first again"]
    assert queue.waiting == 1


@pytest.mark.parametrize("discipline", list(Discipline))
@pytest.mark.parametrize("seed", range(4))
def test_a_job_that_starts_at_once_starts_as_by_a_pass(discipline: Discipline, seed: int) -> None:
    random = Random(seed)
    plain: LocalQueue[int] = local_queue(processors=8, discipline=discipline)
    quick: LocalQueue[int] = local_queue(processors=8, discipline=discipline)
    ends: dict[int, int] = {}
    at_once = 0
    for now in range(400):
        for key in [key for key, end_at in ends.items() if end_at == now]:
            del ends[key]
            plain.end(key)
            quick.end(key)
        started: list[int] = []
        for key in range(now * 10, now * 10 + random.choice([*[0] * 9, 1, 1, 2])):
            size, estimate_s = random.choice([1, 1, 2, 3, 6]), random.randint(1, 9)
            plain.submit(key, processors=size, estimate_s=estimate_s)
            if quick.start_at_once(key, processors=size, estimate_s=estimate_s, now=now):
                started.append(key)
            else:
                quick.submit(key, processors=size, estimate_s=estimate_s)
        at_once += len(started)
        started += quick.advance(now)
        assert started == plain.advance(now)
        assert [*quick.running] == [*plain.running]
        assert quick.startable(now, 3) == plain.startable(now, 3)
        ends |= {key: now + random.randint(1, 9) for key in started}
    assert at_once > 5 or discipline is Discipline.CONSERVATIVE
