"""The model of a local manager: by hand, and job by job against a plainly right reference."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala_agent.lrm.model import Discipline, LocalQueue, TraceJob, start_times

# A reference that follows the definition word by word --------------------------------------------


def reference(jobs: list[TraceJob], processors: int, discipline: Discipline) -> list[float]:
    """Everything is sorted, scored and searched anew at every instant."""
    starts: dict[int, float] = {}
    waiting: list[int] = []
    running: list[int] = []
    pending = list(range(len(jobs)))

    def ends_at(index: int) -> float:
        return starts[index] + jobs[index].run_s

    def idle() -> int:
        return processors - sum(jobs[index].processors for index in running)

    def start(index: int, now: float) -> None:
        starts[index] = now
        waiting.remove(index)
        running.append(index)

    while pending or running:
        arrivals = [jobs[index].submit_at for index in pending]
        now = min(arrivals + [ends_at(index) for index in running])
        running[:] = [index for index in running if ends_at(index) > now]
        waiting += [index for index in pending if jobs[index].submit_at == now]
        pending = [index for index in pending if jobs[index].submit_at > now]
        while waiting and jobs[waiting[0]].processors <= idle():
            start(waiting[0], now)
        if discipline is Discipline.EASY and waiting:
            for index in reference_backfill(jobs, starts, waiting, running, now, idle()):
                start(index, now)
    return [starts[index] for index in range(len(jobs))]


def reference_backfill(
    jobs: list[TraceJob],
    starts: dict[int, float],
    waiting: list[int],
    running: list[int],
    now: float,
    idle: int,
) -> list[int]:
    def leaves_at(index: int) -> float:
        return max(now, starts[index] + jobs[index].estimate_s)

    def free_at(instant: float) -> int:
        gone = [index for index in running if leaves_at(index) <= instant]
        return idle + sum(jobs[index].processors for index in gone)

    needed = jobs[waiting[0]].processors
    shadow = min(leaves_at(i) for i in running if free_at(leaves_at(i)) >= needed)
    extra = free_at(shadow) - needed
    chosen = []
    for index in waiting[1:]:
        job = jobs[index]
        if job.processors > idle:
            continue
        if now + job.estimate_s > shadow:
            if job.processors > extra:
                continue
            extra -= job.processors
        idle -= job.processors
        chosen.append(index)
    return chosen


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


@pytest.mark.parametrize("discipline", list(Discipline))
@given(data=st.data())
def test_every_job_starts_when_the_definition_says(
    discipline: Discipline, data: st.DataObject
) -> None:
    jobs = data.draw(traces(overrun=False))
    starts = start_times(jobs, processors=PROCESSORS, discipline=discipline)
    assert starts == reference(jobs, PROCESSORS, discipline)


@given(traces(overrun=True))
def test_every_job_starts_when_the_definition_says_also_when_runs_exceed_estimates(
    jobs: list[TraceJob],
) -> None:
    """A shadow that lies in the past moves with the clock, and jobs passed over are seen again."""
    starts = start_times(jobs, processors=PROCESSORS, discipline=Discipline.EASY)
    assert starts == reference(jobs, PROCESSORS, Discipline.EASY)


# By hand ------------------------------------------------------------------------------------------


def test_fcfs_starts_nothing_behind_a_head_that_does_not_fit() -> None:
    jobs = [TraceJob(0, 6, 10, 10), TraceJob(1, 4, 5, 5), TraceJob(2, 1, 1, 1)]
    assert start_times(jobs, processors=8, discipline=Discipline.FCFS) == [0, 10, 10]


def test_easy_starts_a_short_job_that_ends_at_the_shadow_and_not_one_that_ends_later() -> None:
    jobs = [
        TraceJob(0, 6, 10, 10),
        TraceJob(0, 8, 5, 5),  # the head: its shadow is 10, extra is 0
        TraceJob(0, 2, 11, 11),  # one second too long
        TraceJob(0, 2, 10, 10),  # ends exactly at the shadow
    ]
    assert start_times(jobs, processors=8, discipline=Discipline.EASY) == [0, 10, 15, 0]


def test_easy_starts_long_jobs_on_the_processors_that_the_head_leaves_over() -> None:
    jobs = [
        TraceJob(0, 5, 10, 10),
        TraceJob(0, 6, 5, 5),  # the head: at 10 all 8 are free, so extra is 2
        TraceJob(0, 1, 99, 99),  # takes one of the extra
        TraceJob(0, 2, 99, 99),  # one extra is left: not now; at 15 it fits
        TraceJob(0, 1, 99, 99),  # takes the other
    ]
    assert start_times(jobs, processors=8, discipline=Discipline.EASY) == [0, 10, 0, 15, 0]


def test_easy_counts_all_that_leave_at_the_shadow_as_extra() -> None:
    jobs = [
        TraceJob(0, 3, 10, 10),
        TraceJob(0, 3, 10, 10),
        TraceJob(0, 4, 5, 5),  # fits at 10 with either of them gone; both are, so extra is 4
        TraceJob(0, 2, 50, 50),
    ]
    assert start_times(jobs, processors=8, discipline=Discipline.EASY) == [0, 0, 10, 0]


def test_a_job_that_ends_before_its_estimate_lets_the_head_start_early() -> None:
    jobs = [TraceJob(0, 8, 3, 100), TraceJob(0, 8, 1, 1)]
    assert start_times(jobs, processors=8, discipline=Discipline.EASY) == [0, 3]


def test_all_completions_of_an_instant_come_before_its_arrivals() -> None:
    jobs = [TraceJob(0, 8, 10, 10), TraceJob(10, 8, 1, 1)]
    assert start_times(jobs, processors=8, discipline=Discipline.FCFS) == [0, 10]


# The machine --------------------------------------------------------------------------------------


def a_queue(discipline: Discipline = Discipline.EASY) -> LocalQueue[str]:
    return LocalQueue(processors=8, discipline=discipline)


def test_a_job_larger_than_the_site_is_refused_and_changes_nothing() -> None:
    queue = a_queue()
    with pytest.raises(ValueError, match="asks for 9 processors; 1 to 8"):
        queue.submit("large", processors=9, estimate_s=1)
    assert queue.waiting == 0
    assert queue.advance(0) == []


def test_withdrawing_the_head_lets_those_behind_it_start() -> None:
    queue = a_queue(Discipline.FCFS)
    queue.submit("running", processors=4, estimate_s=100)
    queue.submit("head", processors=8, estimate_s=1)
    queue.submit("next", processors=4, estimate_s=100)
    assert queue.advance(0) == ["running"]
    queue.withdraw("head")
    assert queue.advance(1) == ["next"]


def test_withdrawing_the_head_under_easy_shows_those_passed_over_to_the_next_head() -> None:
    queue = a_queue()
    queue.submit("running", processors=4, estimate_s=10)
    queue.submit("head", processors=8, estimate_s=1)
    queue.submit("second", processors=6, estimate_s=100)
    queue.submit("long", processors=2, estimate_s=100)  # not beside "head", but beside "second"
    assert queue.advance(0) == ["running"]
    queue.withdraw("head")
    assert queue.advance(1) == ["long"]


def test_a_withdrawn_newcomer_is_not_started() -> None:
    queue = a_queue()
    queue.submit("running", processors=4, estimate_s=10)
    queue.submit("head", processors=8, estimate_s=1)
    assert queue.advance(0) == ["running"]
    queue.submit("gone", processors=1, estimate_s=1)
    queue.withdraw("gone")
    assert queue.advance(1) == []


def test_occupied_processors_are_not_given_twice() -> None:
    queue = a_queue()
    queue.occupy("adopted", processors=5, until=7)
    queue.submit("head", processors=4, estimate_s=1)
    queue.submit("small", processors=3, estimate_s=8)
    assert queue.advance(0) == ["small"]  # extra at the shadow 7 is 4
    assert queue.idle == 0
    queue.end("adopted")
    assert queue.advance(3) == ["head"]


@pytest.mark.parametrize(
    ("discipline", "estimate_s", "expected"),
    [
        (Discipline.FCFS, 1, 0),
        (Discipline.EASY, math.inf, 1),  # extra is 8 - 7
        (Discipline.EASY, 11, 1),
        (Discipline.EASY, 10, 3),  # gone by the shadow: all idle ones
    ],
)
def test_startable_is_what_would_start_behind_those_who_wait(
    discipline: Discipline, estimate_s: float, expected: int
) -> None:
    queue = a_queue(discipline)
    assert queue.startable(0, estimate_s) == 8
    queue.submit("running", processors=5, estimate_s=10)
    queue.submit("head", processors=7, estimate_s=1)
    assert queue.advance(0) == ["running"]
    assert queue.startable(0, estimate_s) == expected


@given(
    traces(overrun=False), st.integers(1, PROCESSORS), st.sampled_from(list(Discipline)),
    st.sampled_from([2, 5, math.inf]),
)  # fmt: skip
def test_startable_is_exactly_what_starts(
    jobs: list[TraceJob], claim: int, discipline: Discipline, estimate_s: float
) -> None:
    """Ask, submit, see: the answer holds for every size, whatever the queue is."""
    queue: LocalQueue[int] = LocalQueue(processors=PROCESSORS, discipline=discipline)
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


class Plain:
    """The machine again, without a memory: every pass looks at everything."""

    def __init__(self, discipline: Discipline) -> None:
        self.discipline = discipline
        self.waiting: dict[int, TraceJob] = {}
        self.running: dict[int, tuple[int, float]] = {}

    def advance(self, now: float) -> list[int]:
        started = []
        while self.waiting:
            key, job = next(iter(self.waiting.items()))
            if job.processors > self.idle():
                break
            started.append(self.start(key, now))
        if self.discipline is Discipline.EASY and self.waiting:
            started += self.backfill(now)
        return started

    def backfill(self, now: float) -> list[int]:
        head, *others = self.waiting
        needed = self.waiting[head].processors
        leaving = [(max(now, until), size) for size, until in self.running.values()]

        def free_at(instant: float) -> int:
            return self.idle() + sum(size for until, size in leaving if until <= instant)

        shadow = min(until for until, _ in leaving if free_at(until) >= needed)
        extra = free_at(shadow) - needed
        started = []
        for key in others:
            job = self.waiting[key]
            is_short = now + job.estimate_s <= shadow
            if job.processors <= self.idle() and (is_short or job.processors <= extra):
                extra -= 0 if is_short else job.processors
                started.append(self.start(key, now))
        return started

    def start(self, key: int, now: float) -> int:
        job = self.waiting.pop(key)
        self.running[key] = (job.processors, now + job.estimate_s)
        return key

    def idle(self) -> int:
        return PROCESSORS - sum(size for size, _ in self.running.values())


@pytest.mark.parametrize("discipline", list(Discipline))
@given(data=st.data())
def test_what_is_remembered_between_passes_never_shows(
    discipline: Discipline, data: st.DataObject
) -> None:
    """Submissions, withdrawals, early and late ends and jobs past the queue, in any order."""
    queue: LocalQueue[int] = LocalQueue(processors=PROCESSORS, discipline=discipline)
    plain = Plain(discipline)
    now = 0.0
    for key in range(data.draw(st.integers(1, 60))):
        now += data.draw(st.sampled_from([0, 0, 1, 3]))
        match data.draw(
            st.sampled_from(["submit", "submit", "submit", "withdraw", "end", "occupy"])
        ):
            case "submit":
                job = TraceJob(now, data.draw(st.integers(1, 8)), 1, data.draw(st.integers(1, 9)))
                queue.submit(key, processors=job.processors, estimate_s=job.estimate_s)
                plain.waiting[key] = job
            case "withdraw" if plain.waiting:
                gone = data.draw(st.sampled_from(sorted(plain.waiting)))
                queue.withdraw(gone)
                del plain.waiting[gone]
            case "end" if plain.running:
                gone = data.draw(st.sampled_from(sorted(plain.running)))
                queue.end(gone)
                del plain.running[gone]
            case "occupy" if plain.idle():
                size = data.draw(st.integers(1, plain.idle()))
                queue.occupy(key, processors=size, until=now + 4)
                plain.running[key] = (size, now + 4)
            case _:
                pass  # nothing there to withdraw, to end, or to occupy
        if data.draw(st.booleans()):
            assert queue.advance(now) == plain.advance(now)
            assert queue.idle == plain.idle()
    assert queue.advance(now) == plain.advance(now)


def test_a_job_put_back_is_the_head_of_its_queue() -> None:
    """One that was stopped to make room goes on before all that wait."""
    queue: LocalQueue[str] = LocalQueue(processors=4, discipline=Discipline.FCFS)
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
