"""Malleable jobs in simulated time: their work is done once, whatever comes, goes and fails."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koala.core.model.job_spec import Split
from koala.core.model.values import JobId
from koala.lab.sim.experiment.setting import MalleableProgram, NoFaults, Submission
from koala.lab.sim.metrics import JobRecord
from koala.policies import chosen
from tests.harness.builders import a_spec
from tests.lab.sim.experiment.small import Watched, local, outage, same, site, submission

STEP = {"resize_step_s": 5.0, "scan": "change", "start": "early"}
LEAVE_S = 3.0


def shared(needed_s: float) -> MalleableProgram:
    """Work that any number of processors share without loss."""
    return MalleableProgram(run_s=lambda processors: needed_s / processors, leave_s=LEAVE_S)


def malleable(
    name: str, at: float, total: int, *, least: int = 2, part_max: int = 4, work_s: float
) -> Submission:
    """A malleable job; its components have 2 processors at least."""
    split = Split(
        total=total, least=least, part_min=2, part_max=part_max, parts_max=20, is_malleable=True
    )
    spec = replace(a_spec(*split.nominal), split=split)
    return Submission(job=JobId(name), at=at, spec=spec, program=shared(work_s))


def sizes(job: JobRecord) -> list[int]:
    return [processors for _, processors in job.sizes]


def work_s(job: JobRecord) -> float:
    """Processor-seconds in its last attempt."""
    spans = zip(job.sizes, job.sizes[1:], strict=False)
    return sum(size * (until - at) for (at, size), (until, _) in spans)


def test_it_grows_into_what_others_leave_and_ends_sooner() -> None:
    """From 100 s on it has 8 in place of 4 processors: 1000 - 400 are left, which take 75 s."""
    world = Watched(
        [site("a", 4), site("b", 4, local(0.0, 4, 100.0))],
        malleable("m", 1.0, 8, work_s=1000.0),
        parameters=STEP,
    )
    (job,) = world.play().values()
    assert sizes(job) == [4, 8, 0]
    assert [at for at, _ in job.sizes] == pytest.approx([1.0, 100.0, 175.5], abs=0.2)
    assert (job.started_at, job.ended_at) == (job.sizes[0][0], job.sizes[-1][0])
    assert job.processors == 8
    assert job.mean_processors == pytest.approx(1000 / 174.5, rel=0.01)


def test_it_gives_way_to_a_waiting_job_and_takes_back_what_that_leaves() -> None:
    world = Watched(
        [site("a", 4), site("b", 4)],
        malleable("m", 1.0, 8, work_s=1000.0),
        submission("w", 50.0, 4, run_s=30.0),
        parameters=STEP,
    )
    jobs = world.play()
    given = jobs["w"].started_at
    assert given == pytest.approx(50.0 + LEAVE_S, abs=0.2)
    assert sizes(jobs["m"]) == [8, 4, 8, 0]
    assert jobs["m"].ended_at == pytest.approx(1.0 + (1000 + 4 * 30) / 8, abs=1.0)


def test_it_keeps_what_it_has_where_running_jobs_come_first() -> None:
    world = Watched(
        [site("a", 4), site("b", 4)],
        malleable("m", 1.0, 8, work_s=800.0),
        submission("w", 50.0, 4, run_s=30.0),
        parameters={**STEP, "resize_first": "running"},
    )
    m, w = world.play().values()
    assert sizes(m) == [8, 0]
    assert w.started_at == pytest.approx(m.ended_at, abs=0.2)


@pytest.mark.parametrize(("least", "expected"), [(2, [8, 4, 8, 0]), (8, [8, 0])])
def test_it_goes_on_when_a_site_is_lost_and_begins_again_below_its_least(
    least: int, expected: list[int]
) -> None:
    world = Watched(
        [site("a", 4), site("b", 4)],
        malleable("m", 1.0, 8, least=least, work_s=800.0),
        parameters=STEP,
        faults=NoFaults([outage("b", 50.0, 60.0)]),
    )
    (job,) = world.play().values()
    assert sizes(job) == expected
    assert (job.attempts > 1) is (least == 8)
    same(work_s(job), 800.0)


JOBS = st.lists(
    st.tuples(
        st.floats(0.0, 200.0),  # when it comes
        st.integers(1, 8),  # its total, in twos
        st.floats(10.0, 2000.0),  # its work
        st.booleans(),  # malleable
    ),
    min_size=1,
    max_size=8,
)


@given(jobs=JOBS, manager=st.sampled_from(["FPSMA", "EGS"]), first=st.booleans())
def test_all_work_is_done_once_and_no_site_is_overfull(
    jobs: list[tuple[float, int, float, bool]], manager: str, first: bool
) -> None:
    """`Watched` checks after every event that no site has more in use than it has."""
    submissions = []
    for number, (at, twos, needed_s, is_malleable) in enumerate(sorted(jobs)):
        name, total = f"j{number}", 2 * twos
        if is_malleable:
            submissions.append(malleable(name, at, total, work_s=needed_s))
        else:
            submissions.append(submission(name, at, min(4, total), run_s=needed_s / total))
    world = Watched(
        [site("a", 6), site("b", 5), site("c", 8)],
        *submissions,
        parameters={**STEP, "resize_first": "running" if first else "waiting"},
        policies=chosen(resizing=manager),
    )
    records = world.play()
    for submitted in submissions:
        record = records[submitted.job]
        assert record.phase == "Finished"
        if submitted.program is None:
            continue
        same(work_s(record), submitted.program.run_s(1))
        assert record.sizes[-1] == (record.ended_at, 0)
        assert max(size for _, size in record.sizes) <= record.processors
        assert record.attempts == 1
