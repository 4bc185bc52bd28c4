"""Results of the client.

    site = client.sites()[0]
    site.processors          # an attribute, typed
    site["processors"]       # the same name in the document
    site.document            # all of the document, as `--json` prints it

Instants are aware datetimes (UTC) as attributes, and seconds of the epoch in documents. Durations
are seconds (`_s`). docs/api.md describes all names.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from koala.views.records.access import AuditLine, Enrolment, User
from koala.views.records.accounts import ClaimCost, ClaimReport, Report, ReportRow
from koala.views.records.base import Moment, Record
from koala.views.records.chart import ChartClaim, ChartSite, GridTimeline, LocalUse
from koala.views.records.grid import (
    AddedFile,
    DaemonInfo,
    DiskSpace,
    LinkStatus,
    Metrics,
    Queue,
    QueuedJob,
    QueueLengths,
    Queues,
    RemovedFile,
    ReplicaFile,
    Resources,
    SiteCounts,
    SiteStatus,
)
from koala.views.records.jobs import (
    NO_NOTICE,
    CancelResult,
    Copying,
    Deadline,
    Explanation,
    JobDetails,
    JobProgress,
    JobSummary,
    JobTimeline,
    Notice,
    Part,
    PartCourse,
    PartEnd,
    Setback,
    StoryLine,
    Timeline,
    Transfer,
)

__all__ = [
    "NO_NOTICE",
    "AddedFile",
    "AuditLine",
    "CancelResult",
    "ChartClaim",
    "ChartSite",
    "ClaimCost",
    "ClaimReport",
    "Copying",
    "DaemonInfo",
    "Deadline",
    "DiskSpace",
    "Enrolment",
    "Explanation",
    "GridTimeline",
    "JobDetails",
    "JobProgress",
    "JobSummary",
    "JobTimeline",
    "LinkStatus",
    "LocalUse",
    "LogPart",
    "Metrics",
    "Moment",
    "Notice",
    "OutputFile",
    "OutputPart",
    "Part",
    "PartCourse",
    "PartEnd",
    "Queue",
    "QueueLengths",
    "QueuedJob",
    "Queues",
    "Record",
    "RemovedFile",
    "ReplicaFile",
    "Report",
    "ReportRow",
    "Resources",
    "Setback",
    "SiteCounts",
    "SiteStatus",
    "StoryLine",
    "Timeline",
    "Transfer",
    "User",
]


@dataclass(slots=True, kw_only=True)
class LogPart:
    """Bytes that one process wrote to a stream; `offset` is their position in the attempt."""

    component: int = 0
    label: str = ""
    process: int = 0
    stream: str = ""
    data: bytes = b""
    attempt: int = 0
    offset: int = 0

    @property
    def text(self) -> str:
        """The bytes as UTF-8; a character that is cut at an end of the part is replaced."""
        return self.data.decode(errors="replace")


@dataclass(slots=True, kw_only=True)
class OutputPart:
    """Part of an output file. An empty part with the name and size comes first."""

    name: str
    size_bytes: int
    data: bytes


@dataclass(slots=True, kw_only=True)
class OutputFile:
    """Output file of a job: `name` is LABEL/NAME; `path` is None until it is fetched."""

    name: str
    size_bytes: int
    path: Path | None = None
