"""The twin on disk: `SITE.swf` for each site, `grid.toml`, and `import.json` with all counts.

Instants in the logs count from one instant for all sites, which the headers name.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import IO, Any, Protocol

import tomli_w

from koala.common.protocol.names import SITE
from koala.common.runtime.atomic_file import atomic_file, write_atomically
from koala.errors import ConfigError, WorkloadError
from koala.lab.twin import qacct, sacct
from koala.lab.twin.records import Counts, Note, Read, Record, merged
from koala.lab.workload import swf
from koala.lab.workload.logs import GZIP

VERSION = 1
GRID, COUNTS = "grid.toml", "import.json"
COMPLETED, FAILED, CANCELLED = 1, 0, 5
"""Status of a job in the Standard Workload Format."""


class Reader(Protocol):
    """Reader of the output of a batch system's command."""

    def __call__(
        self, lines: Iterable[str], *, source: str, site: str, zone: tzinfo | None
    ) -> Iterator[Read]:
        """Read the jobs of one recording."""


READERS: dict[str, Reader] = {"sacct": sacct.read, "qacct": qacct.read}


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinSite:
    """A site of a twin. `is_given` tells processors that a person named from the most that were
    ever used at a time."""

    name: str
    processors: int
    is_given: bool
    jobs: tuple[Record, ...]

    @property
    def used_processor_s(self) -> int:
        """Return the processor-seconds of its jobs."""
        return sum(job.processors * (_end(job) - job.start_at) for job in self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Recorded jobs by site, and what was left out of the recordings."""

    sites: tuple[TwinSite, ...]
    begin_at: int
    counts: Counts

    @property
    def until_at(self) -> int:
        """Return the end of the last job."""
        return max(_end(job) for site in self.sites for job in site.jobs)

    def utilization(self, site: TwinSite) -> float:
        """Return the share of a site's processors that its jobs used in the time of the twin."""
        capacity = site.processors * (self.until_at - self.begin_at)
        return site.used_processor_s / capacity if capacity else 0.0


def _ignore(_lines: int) -> None:
    pass


def read_recordings(
    recordings: Sequence[tuple[str, Path]],
    *,
    site: str | None = None,
    zone: tzinfo | None = None,
    processors: Mapping[str, int] | None = None,
    progress: Callable[[int], None] = _ignore,
) -> Twin:
    """Read recordings, each with the command that wrote it. Records without a cluster are of
    `site`, or of the site that their file is named after. `progress` gets the number of lines of
    the present file. Raises WorkloadError for a file that is none, ConfigError for names and
    numbers that are not allowed."""
    if site is not None and not SITE.fullmatch(site):
        raise ConfigError(f"--site {site} (expected a name that matches {SITE.pattern})")
    counts = Counts()
    sources = (
        (path.name, _reads(READERS[kind], path, site or _named(path), zone, progress))
        for kind, path in recordings
    )
    jobs = merged(sources, counts)
    if not jobs:
        detail = "; ".join(line.strip() for line in counts.lines())
        files = ", ".join(str(path) for _, path in recordings)
        raise WorkloadError(f"{files}: no job that ran ({detail})")
    names = sorted({job.site for job in jobs})
    wanted = dict(processors or {})
    for name in wanted.keys() - set(names):
        raise ConfigError(f"--processors {name}={wanted[name]}: sites are {', '.join(names)}")
    sites = []
    for name in names:
        own = tuple(job for job in jobs if job.site == name)
        used = peak(own)
        if wanted.get(name, used) < used:
            raise ConfigError(
                f"--processors {name}={wanted[name]} (expected {used} or more, as so many were"
                " used at a time)"
            )
        sites.append(
            TwinSite(
                name=name, processors=wanted.get(name, used), is_given=name in wanted, jobs=own
            )
        )
    return Twin(sites=tuple(sites), begin_at=min(job.submit_at for job in jobs), counts=counts)


def _named(path: Path) -> str:
    if path.is_dir():
        raise WorkloadError(f"{path} is a folder (expected a file)")
    name = path.name.partition(".")[0]
    if not SITE.fullmatch(name):
        raise ConfigError(f"{path}: its name is not a site's (expected --site NAME)")
    return name


def _reads(
    reader: Reader,
    path: Path,
    site: str,
    zone: tzinfo | None,
    progress: Callable[[int], None],
) -> Iterator[Read]:
    try:
        with _opened(path) as file:
            yield from reader(_counted(file, progress), source=str(path), site=site, zone=zone)
    except (OSError, EOFError, zlib.error) as error:
        detail = getattr(error, "strerror", None) or error
        raise WorkloadError(f"{path}: cannot be read: {detail}") from error


def _counted(lines: Iterable[str], progress: Callable[[int], None]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if not number % 10_000:
            progress(number)
        yield line


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """Open the text, gzip by its first bytes; once only, because pipes cannot be read again."""
    with path.open("rb") as raw, ExitStack() as stack:
        file: BufferedReader | gzip.GzipFile = raw
        if raw.peek(2).startswith(GZIP):
            file = stack.enter_context(gzip.open(raw))
        yield stack.enter_context(TextIOWrapper(file, encoding="utf-8-sig", errors="replace"))


def peak(jobs: Iterable[Record]) -> int:
    """Return the most processors that jobs used at a time. A job that ends frees its processors
    before those of the same second begin."""
    changes = sorted(
        change
        for job in jobs
        for change in ((_end(job), -job.processors), (job.start_at, job.processors))
        if _end(job) > job.start_at
    )
    used = most = 0
    for _, change in changes:
        used += change
        most = max(most, used)
    return max(most, max((job.processors for job in jobs), default=0))


def _end(job: Record) -> int:
    return job.start_at + (job.elapsed_s or 0) if job.end_at is None else job.end_at


def check_folder(folder: Path) -> None:
    """Check that a twin written there replaces no grid file but one of a twin. Raises
    ConfigError."""
    if (folder / GRID).exists() and not (folder / COUNTS).exists():
        raise ConfigError(
            f"--out {folder} has a {GRID} that is not of a twin (expected a new folder, or one of"
            " `koala twin import`)"
        )


def write(twin: Twin, folder: Path, *, kind: str, sources: Sequence[str]) -> None:
    """Write the folder of a twin. Raises KoalaError if a file cannot be written."""
    for site in twin.sites:
        with atomic_file(folder / f"{site.name}.swf") as part, part.open("w") as file:
            swf.write(file, _lines(site, twin.begin_at), comments=_comments(site, twin, kind))
    tables = {
        site.name: {
            "site": {"processors": site.processors},
            "lrm": {"kind": "emulated", "discipline": "easy"},
        }
        for site in twin.sites
    }
    write_atomically(folder / GRID, tomli_w.dumps({"sites": tables}))
    write_atomically(folder / COUNTS, json.dumps(document(twin, kind, sources), indent=2) + "\n")


def document(twin: Twin, kind: str, sources: Sequence[str]) -> dict[str, Any]:
    """Return everything about an import but the jobs."""
    return {
        "version": VERSION,
        "kind": kind,
        "files": list(sources),
        "begin": _written(twin.begin_at),
        "end": _written(twin.until_at),
        **twin.counts.document(),
        "sites": {
            site.name: {
                "processors": site.processors,
                "processors_are": "given" if site.is_given else "the most used at a time",
                "jobs": len(site.jobs),
                "used_processor_s": site.used_processor_s,
                "utilization": twin.utilization(site),
            }
            for site in twin.sites
        },
    }


def _written(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _comments(site: TwinSite, twin: Twin, kind: str) -> Iterator[str]:
    yield "Version: 2.2"
    yield f"Computer: {site.name}"
    yield f"Conversion: koala twin import {kind}"
    yield f"MaxJobs: {len(site.jobs)}"
    yield f"MaxProcs: {site.processors}"
    yield f"UnixStartTime: {twin.begin_at}"
    yield "Note: submit times of all sites of this twin count from the same instant"


def _lines(site: TwinSite, begin_at: int) -> Iterator[tuple[int, ...]]:
    users: dict[str, int] = {}
    for number, job in enumerate(site.jobs, start=1):
        user = users.setdefault(job.user, len(users) + 1)
        limit_s = -1 if job.limit_s is None else job.limit_s
        wait_s, run_s = job.start_at - job.submit_at, _end(job) - job.start_at
        status = COMPLETED
        if Note.CANCELLED in job.notes:
            status = CANCELLED
        elif Note.FAILED in job.notes:
            status = FAILED
        known = (number, job.submit_at - begin_at, wait_s, run_s, job.processors, -1, -1)
        yield (*known, job.processors, limit_s, -1, status, user, -1, -1, -1, 1, -1, -1)
