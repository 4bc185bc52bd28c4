"""Which copies of files count, of all those that sites say they hold.

A name means one content. The content that the catalogue has for it stays as long as another site
holds it: a site that says something else under the same name adds nothing and replaces nothing, or
any site could put its own bytes in place of everybody's input. What it said counts as soon as
nobody holds the former content any more. No I/O; the events are the core's.
"""

from __future__ import annotations

from collections.abc import Iterator

from koala.core.model.events import Event, ReplicaAdded, ReplicaRemoved
from koala.core.model.values import FileName, SiteName
from koala.core.scheduler import Scheduler
from koala.protocol.from_agent import FileNews

FILES_MAX = 50_000
"""That one site may have; its agent lists no more."""


class ReplicaReports:
    """What was said since this daemon's start."""

    def __init__(self, files_max: int = FILES_MAX) -> None:
        self._files_max = files_max
        self._said: dict[SiteName, dict[FileName, FileNews]] = {}

    def begin(self, site: SiteName) -> None:
        """The site says all anew."""
        self._said[site] = {}

    def holds(self, site: SiteName, file: FileName) -> bool:
        """Whether the site says that it holds the file, with whatever content."""
        return file in self._said.get(site, {})

    def objection(self, news: FileNews, site: SiteName, scheduler: Scheduler) -> str:
        """Why what is said does not count now; empty when it does."""
        said = self._said.get(site, {})
        if news.is_removed:
            return ""
        if news.file not in said and len(said) >= self._files_max:
            return f"the site has {self._files_max} files already: no more are taken"
        known = scheduler.replicas.get(news.file)
        if known is None or (known.size_bytes, known.checksum) == (news.size_bytes, news.checksum):
            return ""
        others = ", ".join(other for other in known.sites if other != site)
        return f"another content is held by {others}: remove it there first" if others else ""

    def take(self, news: FileNews, site: SiteName, scheduler: Scheduler) -> Iterator[Event]:
        """The events of a report; each is to be handled before the next is asked for."""
        objection = self.objection(news, site, scheduler)
        said = self._said.setdefault(site, {})
        if news.is_removed:
            said.pop(news.file, None)
        elif not objection or len(said) < self._files_max:
            said[news.file] = news
        known = scheduler.replicas.get(news.file)
        is_listed = known is not None and site in known.sites
        if news.is_removed or objection:
            if is_listed:
                yield ReplicaRemoved(file=news.file, site=site)
                yield from self._successors(news.file, scheduler)
            return
        is_same = known is not None and (
            (known.size_bytes, known.checksum) == (news.size_bytes, news.checksum)
        )
        if not (is_listed and is_same):
            yield ReplicaAdded(
                file=news.file, site=site, size_bytes=news.size_bytes, checksum=news.checksum
            )

    def _successors(self, file: FileName, scheduler: Scheduler) -> Iterator[Event]:
        """What others said of a file that nobody holds as it was."""
        for site in sorted(self._said):
            if file not in scheduler.replicas or site not in scheduler.replicas[file].sites:
                news = self._said[site].get(file)
                if news is not None and not self.objection(news, site, scheduler):
                    yield from self.take(news, site, scheduler)
