"""Check of the jobs that a submitted one is to wait for (`after`). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from koala.core.model.job import Finished, Job
from koala.core.model.job_spec import JobSpec
from koala.core.model.predecessors import Ended
from koala.core.model.values import JobId
from koala.errors import RejectedError
from koala.job_descriptions.job_reader import JobReading


def predecessors_of(readings: Sequence[object]) -> tuple[JobId, ...]:
    """List the jobs that read descriptions wait for, each once."""
    specs = [reading.spec for reading in readings if isinstance(reading, JobReading)]
    return tuple(dict.fromkeys(one.job for spec in specs for one in spec.after))


def check_predecessors(
    spec: JobSpec, find: Callable[[JobId], Job | None], sees: Callable[[str], bool]
) -> None:
    """Check that all predecessors exist, and that none has ended otherwise than asked. One that the
    user may not see is answered like one that does not exist. Raises RejectedError."""
    for one in spec.after:
        job = find(one.job)
        if job is None or not sees(job.spec.owner):
            raise RejectedError(f"after {one.job}: there is no such job; allowed is one of yours")
        if job.is_over and one.ended is Ended.OK and not isinstance(job.phase, Finished):
            raise RejectedError(
                f"after {one.job}: that job is {job.phase_name}, and this one starts only after it"
                f" has ended well; allowed is {one.job}:any"
            )
