"""Live view of the demo: three panels on a terminal, otherwise a line for each new phase of a job.

The view shows the daemon's newest answers and keeps no history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koala.cli.output import say
from koala.cli.render.documents import notice_text
from koala.cli.render.table import clean, painted
from koala.views.records.grid import SiteStatus
from koala.views.records.jobs import JobSummary, Notice

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

BAR_CELLS = 24
EVENTS_SHOWN = 8
JOBS_SHOWN = 20


@dataclass(slots=True, kw_only=True)
class Scene:
    """Content of the view: the daemon's newest answers, and the last events."""

    names: dict[str, str] = field(default_factory=dict)
    planned: int = 0
    elapsed_s: float = 0.0
    jobs: Sequence[JobSummary] = ()
    sites: Sequence[SiteStatus] = ()
    events: deque[str] = field(default_factory=lambda: deque(maxlen=EVENTS_SHOWN))


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

    def update(self, scene: Scene) -> None:
        """Do nothing: lines are printed with the events."""


class LiveView:
    """Panels that are redrawn in place."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._live: Live | None = None

    def __enter__(self) -> LiveView:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(panels(self._scene), console=Console(stderr=True), refresh_per_second=4)
        self._live.start()
        return self

    def __exit__(self, *details: object) -> None:
        assert self._live is not None
        self._live.stop()

    def add_event(self, notice: Notice) -> None:
        """Add the notice to the last events."""
        self._scene.events.append(notice_text(notice))

    def update(self, scene: Scene) -> None:
        """Redraw the scene."""
        assert self._live is not None
        self._live.update(panels(scene))


def panels(scene: Scene) -> Group:
    """Build the renderable of a scene: a head line, sites, jobs, events."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    over = sum(job.is_over for job in scene.jobs)
    head = Text.assemble(
        ("koala demo", "bold"),
        f"  {scene.elapsed_s:.0f} s  {len(scene.jobs)} of {scene.planned} jobs submitted,"
        f" {over} over",
    )
    sites = Table("site", "idle", "", box=None, pad_edge=False, expand=False)
    for site in scene.sites:
        sites.add_row(site.site, f"{site.idle}/{site.processors}", bar(site))
    jobs = Table("job", "example", "phase", "sites", "", box=None, pad_edge=False, expand=False)
    for job in list(scene.jobs)[-JOBS_SHOWN:]:
        jobs.add_row(
            job.job,
            scene.names.get(job.job, ""),
            Text.from_ansi(painted(clean(job.phase))),
            " ".join(job.sites),
            Text(clean(job.reason)[:60], style="dim"),
        )
    legend = Text.assemble(
        ("█", "blue"), " ours  ", ("█", "bright_black"), " the site's own users  ",
        ("█", "green"), " idle",
    )  # fmt: skip
    events = [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in scene.events]
    return Group(head, Text(), sites, legend, Text(), jobs, Text(), *events)


def bar(site: SiteStatus) -> Text:
    """Build the bar of a site's processors: claimed ones, those of local users, idle ones."""
    from rich.text import Text

    processors = max(1, site.processors)
    ours = _cells(site.claimed, processors)
    idle = min(_cells(site.idle, processors), BAR_CELLS - ours)
    return Text.assemble(
        ("█" * ours, "blue"),
        ("█" * (BAR_CELLS - ours - idle), "bright_black"),
        ("█" * idle, "green"),
    )


def _cells(count: int, processors: int) -> int:
    """Return the cells of the bar for a number of processors, at least one unless the number is
    0."""
    return min(BAR_CELLS, max(round(count * BAR_CELLS / processors), 1 if count else 0))
