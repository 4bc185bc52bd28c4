"""Places of claims in the queue of an emulated site: bookings, gates, and GPUs to wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from koala.common.runtime.clock import unix_now
from koala.errors import LocalManagerError
from koala.queue_model import LocalQueue
from koala_agent.lrm.emulated.emulated_jobs import Job
from koala_agent.lrm.emulated.emulated_settings import EmulatedSettings
from koala_agent.lrm.emulated.gpu_pool import VARIABLE, GpuPool
from koala_agent.lrm.emulated.local_load import LocalKey
from koala_agent.lrm.job_table import Alive
from koala_agent.lrm.launch import check
from koala_agent.lrm.local_manager import Placeholder, RequestRefusedError

Key = str | LocalKey


class QueuePlaces:
    """Places of claims in a queue. A job that waits for GPUs is gated in it."""

    def __init__(
        self, settings: EmulatedSettings, queue: LocalQueue[Key], *, clock: Callable[[], float]
    ) -> None:
        self.queue = queue
        self.gpus = GpuPool(settings.gpus)
        self._settings = settings
        self._clock = clock

    def require_possible(self, placeholder: Placeholder) -> None:
        """Refuse a job that could never start. Raises RequestRefusedError."""
        check(placeholder, self._settings.processors)
        gpus = placeholder.resources.gpus or 0
        if gpus > self.gpus.total:
            message = f"{placeholder.claim} asks for {gpus} GPUs: this site has {self.gpus.total}"
            raise RequestRefusedError(message)

    def why_impossible_now(self, placeholder: Placeholder) -> str:
        """Explain why a job of an earlier run can never start any more; empty if it can."""
        gpus = placeholder.resources.gpus or 0
        if placeholder.processors > self._settings.processors or gpus > self.gpus.total:
            has = f"{self._settings.processors} processors and {self.gpus.total} GPUs"
            return f"the site has only {has} now"
        return ""

    def book(self, job: Job) -> None:
        """Book the processors of a job. Raises RequestRefusedError."""
        asked = job.placeholder
        if not self._settings.books:
            raise RequestRefusedError("this site books no processors (site.booking_ahead_s = 0)")
        if asked.resources.gpus:
            raise RequestRefusedError("this site books no GPUs (expected a booking without them)")
        in_s = asked.begins_at - unix_now()
        if in_s < 0:
            raise RequestRefusedError(f"a booking that was to begin {-in_s:.0f} s ago")
        if not self._has_booked(job, in_s):
            free = f"{asked.processors} processors are not free for {asked.time_limit_s:.0f} s then"
            raise RequestRefusedError(f"a booking in {in_s:.0f} s: {free}")

    def rebook(self, job: Job) -> bool:
        """Restore a booking. One that should have begun meanwhile begins now, if it finds room."""
        return self._has_booked(job, max(0.0, job.placeholder.begins_at - unix_now()))

    def _has_booked(self, job: Job, in_s: float) -> bool:
        asked, now = job.placeholder, self._clock()
        begin = now + in_s
        end = begin + asked.time_limit_s
        return self.queue.book(
            job.claim, processors=asked.processors, begin=begin, end=end, now=now
        )

    def enqueue(self, job: Job) -> None:
        """Let a job wait for its processors."""
        asked = job.placeholder
        self.queue.submit(job.claim, processors=asked.processors, estimate_s=asked.time_limit_s)
        if not self.is_eligible(job):
            self.queue.gate(job.claim)

    def occupy(self, job: Job) -> None:
        """Give a job its processors without a wait."""
        asked = job.placeholder
        if asked.processors > self.queue.idle:
            message = (
                f"{self._settings.state_directory} holds running claims on more processors than "
                f"the {self._settings.processors} of this site: {job.claim} finds no room"
            )
            raise LocalManagerError(message)
        began_at = job.state.started_at if isinstance(job.state, Alive) else self._clock()
        until = began_at + asked.time_limit_s
        self.queue.occupy(job.claim, processors=asked.processors, until=until)

    def is_eligible(self, job: Job) -> bool:
        """Return False for a job that is gated, or waits for GPUs."""
        return not job.placeholder.is_gated and not self.lacks_gpus(job)

    def lacks_gpus(self, job: Job) -> bool:
        """Return True while a job waits for its GPUs."""
        return bool(job.placeholder.resources.gpus) and not job.gpus

    def ask_gpus(self, job: Job) -> None:
        """Let a job wait for the GPUs that it lacks."""
        if not self.lacks_gpus(job):
            return
        self.gpus.ask(job.claim, job.placeholder.resources.gpus or 0)
        if job.placeholder.is_gated:
            self.gpus.gate(job.claim)

    def change_gate(self, job: Job, *, is_gated: bool) -> None:
        """Gate or open a waiting job."""
        job.placeholder = replace(job.placeholder, is_gated=is_gated)
        if is_gated:
            self.gpus.gate(job.claim)
            job.gpus = ()
            self.queue.gate(job.claim)
        else:
            self.gpus.open(job.claim)
            if self.is_eligible(job):
                self.queue.open(job.claim)

    def with_gpus(self, job: Job) -> Placeholder:
        """Return the job with the variable that shows its GPUs, where the site has any."""
        if not self.gpus.total:
            return job.placeholder
        shown = (VARIABLE, ",".join(map(str, job.gpus)))
        environment = (*job.placeholder.environment, shown)
        return replace(job.placeholder, environment=environment)
