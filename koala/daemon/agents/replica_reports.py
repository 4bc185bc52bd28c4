"""Reconciliation of the files that sites report with the replica catalogue.

- A name means one content. The catalogued content stays as long as another site holds it.
- A site that reports another content under the same name changes nothing; otherwise any site could
  replace everybody's input by its own bytes.
- Its report counts as soon as no site holds the former content.

No I/O; the result is events of the core.
"""

from __future__ import annotations

from collections.abc import Iterator

from koala.common.protocol.messages import FileFound, FileRemoved, FileReports
from koala.core.model.events import Event, ReplicaAdded, ReplicaRemoved
from koala.core.model.values import FileName, SiteName
from koala.core.scheduler import Scheduler

FILES_MAX = 50_000
"""Files that one site may have; its agent lists no more."""


class ReplicaReports:
    """File reports of all sites since this daemon's start."""

    def __init__(self, files_max: int = FILES_MAX) -> None:
        self._files_max = files_max
        self._reported: dict[SiteName, dict[FileName, FileFound]] = {}

    def reset(self, site: SiteName) -> None:
        """Forget the reports of a site; it sends all of them again."""
        self._reported[site] = {}

    def is_reported(self, site: SiteName, file: FileName) -> bool:
        """Return True when the site reports the file, with whatever content."""
        return file in self._reported.get(site, {})

    def objection(self, report: FileReports, site: SiteName, scheduler: Scheduler) -> str:
        """Return the reason why a report does not count now; empty when it does."""
        reported = self._reported.get(site, {})
        if isinstance(report, FileRemoved):
            return ""
        file = FileName(report.file)
        if file not in reported and len(reported) >= self._files_max:
            return f"the site has {self._files_max} files already: no more are taken"
        known = scheduler.replicas.get(file)
        if known is None or (known.size_bytes, known.checksum) == (
            report.size_bytes,
            report.checksum,
        ):
            return ""
        others = ", ".join(holder for holder in known.sites if holder != site)
        return f"another content is held by {others}: remove it there first" if others else ""

    def events_of(
        self, report: FileReports, site: SiteName, scheduler: Scheduler
    ) -> Iterator[Event]:
        """Record a report and yield its events; handle each before asking for the next."""
        file = FileName(report.file)
        objection = self.objection(report, site, scheduler)
        reported = self._reported.setdefault(site, {})
        if isinstance(report, FileRemoved):
            reported.pop(file, None)
        elif not objection or len(reported) < self._files_max:
            reported[file] = report
        known = scheduler.replicas.get(file)
        is_listed = known is not None and site in known.sites
        if isinstance(report, FileRemoved) or objection:
            if is_listed:
                yield ReplicaRemoved(file=file, site=site)
                yield from self._successors(file, scheduler)
            return
        is_same = known is not None and (
            (known.size_bytes, known.checksum) == (report.size_bytes, report.checksum)
        )
        if not (is_listed and is_same):
            yield ReplicaAdded(
                file=file, site=site, size_bytes=report.size_bytes, checksum=report.checksum
            )

    def _successors(self, file: FileName, scheduler: Scheduler) -> Iterator[Event]:
        """Yield the events of other sites' reports that count once the former content is gone."""
        for site in sorted(self._reported):
            if file not in scheduler.replicas or site not in scheduler.replicas[file].sites:
                report = self._reported[site].get(file)
                if report is not None and not self.objection(report, site, scheduler):
                    yield from self.events_of(report, site, scheduler)
