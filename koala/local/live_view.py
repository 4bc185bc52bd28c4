"""Live view of the demo: the screen of `koala top`, or a line for each new phase of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from koala.cli.output import say
from koala.cli.render.table import clean
from koala.cli.top.scene import TopScene, chosen_jobs, counts
from koala.cli.top.screen import screen_lines
from koala.cli.top.state import TopState
from koala.common.runtime import clock
from koala.views.records.grid import SiteStatus
from koala.views.records.jobs import JobSummary, Notice

if TYPE_CHECKING:
    from rich.live import Live

HEIGHT_MAX = 30


class PlainView:
    """A line on standard error for each change of a job's phase."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._phases: dict[str, str] = {}

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *details: object) -> None:
        return

    def add_event(self, notice: Notice) -> None:
        """Print the notice if its job has a new phase, or if it is about a site."""
        job = notice.job
        if job and self._phases.get(job) == notice.phase:
            return
        self._phases[job] = notice.phase
        subject = f"{job} {self._names.get(job, '')}".strip() or notice.site
        say(f"{subject:<20} {notice.phase:<9} {clean(notice.text)}".rstrip())

    def update(self, jobs: Sequence[JobSummary], sites: Sequence[SiteStatus]) -> None:
        """Do nothing: lines are printed with the events."""


class LiveView:
    """The screen of `koala top` without its keys, redrawn in place."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._state = TopState(message="koala demo; ^C ends it")
        self._live: Live | None = None

    def __enter__(self) -> LiveView:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), refresh_per_second=4)
        self._live.start()
        return self

    def __exit__(self, *details: object) -> None:
        assert self._live is not None
        self._live.stop()

    def add_event(self, notice: Notice) -> None:
        """Do nothing: the next screen shows what has changed."""

    def update(self, jobs: Sequence[JobSummary], sites: Sequence[SiteStatus]) -> None:
        """Redraw the screen."""
        from rich.text import Text

        assert self._live is not None
        size, now_at = self._live.console.size, clock.unix_now()
        scene = TopScene(
            address=self._address,
            user="demo",
            now_at=now_at,
            sites=sites,
            jobs=chosen_jobs(jobs, self._state, now_at),
            known=len(jobs),
            counts=counts(jobs),
        )
        height = min(size.height - 1, HEIGHT_MAX)
        lines = screen_lines(scene, self._state, width=size.width - 1, height=height, coloured=True)
        self._live.update(Text("\n").join(Text.from_ansi(line) for line in lines))
