"""The list of jobs, with filters and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from koala.client import AsyncClient
from koala.views.cells import filters_of, job_cells, search_text
from koala.views.records.jobs import JobSummary
from koala.views.records.phases import PHASES, TERMINAL_PHASES
from koala.web.pages.viewer import Viewer, signed_in, whole

ROWS = 50
PAGES_MAX = 100_000
TEXT_MAX = 200
PAST_SEARCHED_MAX = 5_000
"""Newest jobs in which a filter by site or words looks where archived jobs are listed, too."""
FIELDS = ("owner", "phase", "site", "text", "past")
GROUPS = {"alive": "not over", "over": "over"}
"""Groups of phases that the filter offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Jobs to show: empty values let all pass."""

    owner: str = ""
    phase: str = ""
    site: str = ""
    text: str = ""
    past: str = ""

    @classmethod
    def of(cls, values: Mapping[str, str]) -> JobFilter:
        """Read the filter of an address."""
        return cls(**{name: values.get(name, "").strip()[:TEXT_MAX] for name in FIELDS})

    def has(self, job: JobSummary) -> bool:
        """Return True if the job passes."""
        if self.owner and job.owner != self.owner:
            return False
        if self.site and self.site not in job.sites:
            return False
        if self.phase and not self._has_phase(job.phase):
            return False
        return not self.text or all(word in search_text(job) for word in self.text.lower().split())

    def _has_phase(self, phase: str) -> bool:
        if self.phase in GROUPS:
            return (phase in TERMINAL_PHASES) == (self.phase == "over")
        return phase == self.phase

    @property
    def query(self) -> str:
        """The filter as a part of an address."""
        return urlencode({name: getattr(self, name) for name in FIELDS if getattr(self, name)})


@signed_in
async def show(request: Request, viewer: Viewer) -> Response:
    """Show a page of the jobs that pass the filter, newest first."""
    model = viewer.identity.model
    await model.is_loaded.wait()
    wanted = JobFilter.of(request.query_params)
    page = whole(request.query_params.get("page"), low=1, high=PAGES_MAX, default=1)
    if wanted.past:
        found = await _with_archived(viewer.identity.client, wanted, page)
    else:
        found = list(_passing(model.jobs, wanted))
    pages = max(1, -(-len(found) // ROWS))
    page = min(page, pages)
    rows = found[(page - 1) * ROWS : page * ROWS]
    return viewer.page(
        "jobs.html",
        here="jobs",
        filter=wanted,
        groups=GROUPS,
        offers=filters_of([*model.jobs.values()]),
        jobs=[job_cells(job) for job in rows],
        blank=_BLANK,
        count=len(found),
        known=len(model.jobs),
        page=page,
        pages=pages,
        rows=ROWS,
        searched=PAST_SEARCHED_MAX,
    )


async def _with_archived(client: AsyncClient, wanted: JobFilter, page: int) -> list[JobSummary]:
    """Read the newest jobs that pass, archived ones among them, up to one beyond the page."""
    match wanted.phase:
        case "":
            phases: tuple[str, ...] = ()
        case "over":
            phases = TERMINAL_PHASES
        case "alive":
            phases = tuple(phase for phase in PHASES if phase not in TERMINAL_PHASES)
        case phase:
            phases = (phase,)
    is_searched = wanted.site or wanted.text
    last = PAST_SEARCHED_MAX if is_searched else page * ROWS + 1
    listed = await client.list_jobs(past=True, last=last, owner=wanted.owner, phases=phases)
    return [job for job in reversed(listed) if wanted.has(job)]


def _passing(jobs: dict[str, JobSummary], wanted: JobFilter) -> Iterator[JobSummary]:
    for job in reversed(jobs.values()):
        if wanted.has(job):
            yield job


_BLANK = job_cells(JobSummary(job="j0", phase="Placing", components=1))
"""Cells of the row that the browser copies for a new job."""
