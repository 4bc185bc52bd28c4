"""The timeline of the grid as a Gantt chart in SVG: claims over sites. Pure.

The same drawing is part of a page, where links lead to jobs and a style sheet gives the colours,
and a file, which has its colours in attributes. Places in time are per cent of the width, so it
fits any page without being stretched.

A site has a lane as high as its processors: claims are stacked from its bottom, local users' jobs
hang from its top. Claims that wait in its queue are below the lane. An opened site has a line for
each claim besides. Vertical lines lead through the sites of a job: its last component came to the
barrier, and its release.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from heapq import heappop, heappush

from koala.views.gantt_svg import FONT, INK, LINE, SOFT, Element
from koala.views.records.base import seconds_of
from koala.views.records.chart import ChartClaim, ChartSite, GridTimeline
from koala.views.units import counted, duration

KINDS = {
    "queued": "queued",
    "gated": "gated",
    "held": "held at the barrier",
    "running": "running",
    "planned": "planned, to its time limit",
    "ended": "ended",
    "wasted": "given up",
    "local": "local users",
}
"""The legend, in its order."""
HATCHED = {
    "queued": ("#8553c6", 45),
    "gated": ("#8a919b", -45),
    "planned": ("#2c74d6", 45),
}
"""Colour and angle of hatches."""
COLOURS = {
    "held": "#d9930d",
    "running": "#2c74d6",
    "ended": "#93b4e2",
    "wasted": "#e0847f",
    "local": "#b9bec5",
}
LANE_GROUND = "#eceeec"
RELEASE, BARRIER = "#1d2126", "#b07508"
WIDTH = 960
MARGIN = 16
HEAD = 20
AXIS = 22
QUEUE_LINE, QUEUE_LINES_MAX = 8, 4
CLAIM_LINE, CLAIM_LINES_MAX = 18, 60
GAP = 10
LINES_MAX = 40
"""Jobs with lines: the newest ones."""
CROWD = 0.03
"""Jobs that take less of the width have no lines."""
WIDE, NARROW = 900.0, 330.0
"""Widths of the drawing, in pixels, for which labels are said to fit."""
NEAR = 0.004
"""Lines that are closer than this share of the width are one."""
_CHARACTER = 6.3
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800),
)
_TICKS_MAX = 7
_CALENDAR_S = 1e8
"""Instants before 1973 are simulated ones, which are shown as times since the begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Addresses that a chart leads to: of a job, and of the chart with a site opened or closed."""

    job: Callable[[str], str]
    site: Callable[[str], str]


@dataclass(slots=True, kw_only=True)
class _Place:
    """Place of a job's claims in the drawing, from top to bottom, and in time."""

    top: float
    bottom: float
    since: float
    until: float
    sites: set[str] = field(default_factory=set)
    granted: list[float | None] = field(default_factory=list)
    passed: list[float] = field(default_factory=list)


def describe_claim(claim: ChartClaim) -> str:
    """Describe a claim in a line."""
    name = f" ({claim.name})" if claim.name else ""
    size = counted(claim.processors, "processor")
    state = "given up" if claim.is_wasted and claim.state == "ended" else claim.state
    return f"{claim.job}{name}, {claim.part} at {claim.site}: {size}, {state}"


def _kind(claim: ChartClaim) -> str:
    return "wasted" if claim.is_wasted and claim.state == "ended" else claim.state


class GridChart:
    """The chart: its drawing, the kinds of bars that it has, and what it shows in words."""

    def __init__(
        self,
        timeline: GridTimeline,
        *,
        opened: Collection[str] = (),
        links: Links | None = None,
    ) -> None:
        """Draw it; `opened` sites have a line for each claim."""
        self.timeline = timeline
        self.links = links
        self.since, self.until = float(timeline.since), float(timeline.until)
        self.now = float(timeline.now_at)
        self.span_s = max(1e-3, self.until - self.since)
        self.element = Element("svg", {"overflow": "visible"})
        self._drawn: set[str] = set()
        self._places: dict[tuple[str, str], _Place] = {}
        self._is_calendar = self.since > _CALENDAR_S
        self._hatches()
        ground = self.element.add("g")
        lanes = self.element.add("g")
        count = len(timeline.sites)
        lane = 54.0 if count <= 6 else 38.0 if count <= 14 else 24.0
        by_site: dict[str, list[ChartClaim]] = {site.site: [] for site in timeline.sites}
        for claim in timeline.claims:
            if claim.site in by_site:
                by_site[claim.site].append(claim)
        top = float(AXIS)
        for site in timeline.sites:
            is_open = site.site in opened
            top = self._site(lanes, site, by_site[site.site], top, lane, is_open=is_open)
        self.height = top
        self._axis(ground)
        self._lines()
        if self.links is not None:
            self._make_reachable()

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """The legend: kinds and words."""
        return [(kind, word) for kind, word in KINDS.items() if kind in self._drawn]

    def document(self) -> str:
        """Return the drawing as a document of its own."""
        height = self.height + 76
        root = Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "width": WIDTH,
                "height": height,
                "viewBox": f"0 0 {WIDTH} {height:g}",
                "font-family": FONT,
                "font-size": 12,
                "role": "img",
            },
        )
        root.add("title", self.summary)
        root.add("rect", width=WIDTH, height=height, fill="#ffffff")
        root.add("text", self.summary, x=MARGIN, y=24, fill=INK, font_size=15, font_weight="600")
        place = {"x": MARGIN, "y": 36, "width": WIDTH - 2 * MARGIN, "height": self.height}
        root.children.append(replace(self.element, attributes={**self.element.attributes, **place}))
        _legend(root, self, height - 14)
        return f"{root}\n"

    def fragment(self) -> str:
        """Return the drawing as a part of a page."""
        words = {"role": "group", "aria-label": self.summary, "class": "grid-chart"}
        attributes = {**words, **self.element.attributes, "width": "100%", "height": self.height}
        return str(replace(self.element, attributes=attributes))

    @property
    def summary(self) -> str:
        """Say what the chart shows."""
        claims = counted(len(self.timeline.claims), "claim")
        sites = counted(len(self.timeline.sites), "site")
        return f"{claims} at {sites}, {self.clock(self.since)} to {self.clock(self.until)}"

    def clock(self, at: float) -> str:
        """Format an instant: in UTC, or since the begin of a simulated run."""
        if not self._is_calendar:
            return duration(at) if at else "0"
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"

    # --- places in time ---------------------------------------------------------------------------

    def _share(self, at: float) -> float:
        return max(0.0, min(1.0, (at - self.since) / self.span_s))

    def _x(self, at: float) -> str:
        return f"{100 * self._share(at):.3f}%"

    def _bar(
        self, parent: Element, kind: str, since: float, until: float, top: float, height: float
    ) -> None:
        """Draw a bar as far as it is in the period."""
        if until < self.since or since > self.until:
            return
        width = max(0.0015, self._share(until) - self._share(since))
        self._drawn.add(kind)
        hatch = f"url(#hatch-{kind})" if kind in HATCHED else COLOURS.get(kind, LANE_GROUND)
        parent.add(
            "rect", x=self._x(since), width=f"{100 * width:.3f}%", y=top, height=height,
            rx=1.5, fill=hatch, **{"class": f"bar {kind}"},
        )  # fmt: skip

    # --- a site -----------------------------------------------------------------------------------

    def _site(
        self,
        parent: Element,
        site: ChartSite,
        claims: Sequence[ChartClaim],
        top: float,
        height: float,
        *,
        is_open: bool,
    ) -> float:
        """Draw a site, and return where the next one begins."""
        group = parent.add("g", **{"class": "site"})
        waiting = sum(claim.state in ("queued", "gated") for claim in claims)
        words = counted(site.processors, "processor") + (f", {waiting} queued" if waiting else "")
        head = group
        if self.links is not None:
            head = group.add(
                "a", href=self.links.site(site.site), tabindex="0",
                aria_label=f"{'Close' if is_open else 'Open'} {site.site}, {words}",
                **{"class": "site-link", "data-zoom": f"site {site.site}"},
            )  # fmt: skip
        sign = ("▾ " if is_open else "▸ ") if self.links is not None else ""
        label = head.add("text", sign + site.site, x=0, y=top + 14, fill=INK, font_weight="600")
        label.attributes = {**label.attributes, "class": "site-name"}
        group.add(
            "text", words, x="100%", y=top + 14, fill=SOFT, text_anchor="end", font_size=11,
            **{"class": "soft"},
        )  # fmt: skip
        top += HEAD
        self._lane(group, site, claims, top, height)
        top += height + 2
        top = self._queue(group, claims, top)
        if is_open:
            top = self._claim_lines(group, claims, top)
        return top + GAP

    def _lane(
        self,
        parent: Element,
        site: ChartSite,
        claims: Sequence[ChartClaim],
        top: float,
        height: float,
    ) -> None:
        parent.add(
            "rect", width="100%", y=top, height=height, rx=2, fill=LANE_GROUND,
            **{"class": "lane-ground"},
        )  # fmt: skip
        whole = max(1, site.processors)
        self._local(parent, site, top, height)
        for claim, pieces in _packed(claims, whole, self.now):
            group = self._claim(parent, claim)
            for offset, size in pieces:
                high = max(1.5, height * size / whole - 0.7)
                y = top + height * (1 - (offset + size) / whole)
                self._course(group, claim, y, high)
                self._label(group, claim, y, high)
            self._remember(claim, top, top + height)

    def _local(self, parent: Element, site: ChartSite, top: float, height: float) -> None:
        """Hang the local users' processors from the top of the lane."""
        path, whole = "", max(1, site.processors)
        for at, use in site.local:
            path += f"H{1000 * self._share(float(at)):.1f}V{100 * min(1.0, use / whole):.1f}"
        if not path or not any(use for _, use in site.local):
            return
        self._drawn.add("local")
        area = parent.add(
            "svg", y=top, width="100%", height=height, viewBox="0 0 1000 100",
            preserveAspectRatio="none",
        )  # fmt: skip
        end = 1000 * self._share(min(self.now, self.until))
        area.add("path", d=f"M0 0{path}H{end:.1f}V0Z", fill=COLOURS["local"],
                 **{"class": "bar local"})  # fmt: skip

    def _claim(self, parent: Element, claim: ChartClaim) -> Element:
        """Add the group of a claim: a link where there are pages."""
        text = describe_claim(claim)
        group = (
            parent.add("g")
            if self.links is None
            else parent.add("a", href=self.links.job(claim.job), tabindex="-1", aria_label=text)
        )
        group.attributes = {**group.attributes, "class": "claim"}
        group.add("title", text)
        return group

    def _course(self, group: Element, claim: ChartClaim, top: float, height: float) -> None:
        """Draw when a claim held processors and ran, and until when it may."""
        granted_at, passed_at = seconds_of(claim.granted_at), seconds_of(claim.passed_at)
        ended_at = seconds_of(claim.ended_at)
        if granted_at is None:
            return
        end = self.now if ended_at is None else ended_at
        is_over = ended_at is not None
        held = "wasted" if claim.is_wasted and is_over else "held"
        self._bar(group, held, granted_at, end if passed_at is None else passed_at, top, height)
        if passed_at is not None:
            run = "wasted" if claim.is_wasted and is_over else "ended" if is_over else "running"
            self._bar(group, run, passed_at, end, top, height)
            limit = seconds_of(claim.end_at)
            if not is_over and limit is not None and limit > end:
                self._bar(group, "planned", end, limit, top, height)

    def _label(self, group: Element, claim: ChartClaim, top: float, height: float) -> None:
        """Write the job into its bar if there is room for it."""
        begin = seconds_of(claim.granted_at)
        if begin is None or height < 10:
            return
        end = self.now if claim.ended_at is None else float(claim.ended_at)
        share = self._share(end) - self._share(begin)
        long = f"{claim.job} {claim.name}" if claim.name else claim.job
        for text in (long, claim.job):
            room = _CHARACTER * len(text) + 8
            if share * WIDE >= room:
                fits = "" if share * NARROW >= room else " wide-only"
                nested = group.add(
                    "svg", x=self._x(max(begin, self.since)), y=top, height=height,
                    width=f"{100 * share:.3f}%",
                )  # fmt: skip
                nested.add(
                    "text", text, x=4, y=height / 2 + 4, font_size=11,
                    fill=INK if claim.state in ("held", "ended") else "#ffffff",
                    **{"class": f"label {_kind(claim)}{fits}"},
                )  # fmt: skip
                return

    def _queue(self, parent: Element, claims: Sequence[ChartClaim], top: float) -> float:
        """Draw the waits in the local queue, and the planned runs after them."""
        lines: list[float] = []
        for claim in claims:
            asked, granted = float(claim.asked_at), seconds_of(claim.granted_at)
            ended, start = seconds_of(claim.ended_at), seconds_of(claim.start_at)
            waited_until = granted or ended or start or self.now
            until = max(waited_until, seconds_of(claim.end_at) or 0.0) if start else waited_until
            if until < self.since or asked > self.until or until - asked < self.span_s / 400:
                continue
            line = next((at for at, end in enumerate(lines) if end <= asked), len(lines))
            if line == QUEUE_LINES_MAX:
                continue
            lines[line : line + 1] = [until]
            y = top + QUEUE_LINE * line + 1
            group = self._claim(parent, claim)
            kind = "gated" if claim.state == "gated" else "queued"
            self._bar(group, kind, asked, waited_until, y + 1.5, QUEUE_LINE - 5)
            if start is not None:
                self._bar(group, "planned", start, until, y, QUEUE_LINE - 2)
            self._remember(claim, y, y + QUEUE_LINE)
        return top + QUEUE_LINE * len(lines)

    def _claim_lines(self, parent: Element, claims: Sequence[ChartClaim], top: float) -> float:
        """Draw a line for each claim."""
        shown = claims[-CLAIM_LINES_MAX:]
        for claim in shown:
            group = self._claim(parent, claim)
            granted, start = seconds_of(claim.granted_at), seconds_of(claim.start_at)
            asked, ended = float(claim.asked_at), seconds_of(claim.ended_at)
            kind = "gated" if claim.state == "gated" else "queued"
            self._bar(group, kind, asked, granted or ended or start or self.now, top + 6, 6)
            if granted is None and start is not None and claim.end_at is not None:
                self._bar(group, "planned", start, float(claim.end_at), top + 3, 12)
            self._course(group, claim, top + 3, 12)
            text = f"{claim.job}.{claim.part}  {claim.processors}"
            begin, end = self._share(asked), self._share(ended or self.now)
            is_before = begin > 0.25
            group.add(
                "text", text, x=f"{100 * (begin if is_before else end):.3f}%", y=top + 13,
                dx=-5 if is_before else 5, font_size=11, fill=INK, stroke="#ffffff",
                stroke_width=3, paint_order="stroke",
                text_anchor="end" if is_before or end > 0.75 else "start",
                **{"class": "line-label"},
            )  # fmt: skip
            self._remember(claim, top, top + CLAIM_LINE)
            top += CLAIM_LINE
        if len(claims) > len(shown):
            words = f"and {counted(len(claims) - len(shown), 'older claim')}"
            parent.add("text", words, x=0, y=top + 13, fill=SOFT, font_size=11)
            top += CLAIM_LINE
        return top

    # --- lines through the sites ------------------------------------------------------------------

    def _remember(self, claim: ChartClaim, top: float, bottom: float) -> None:
        key = (claim.job, claim.claim.split("/")[1] if "/" in claim.claim else "")
        since = float(claim.granted_at or claim.asked_at)
        until = float(self.now if claim.ended_at is None else claim.ended_at)
        first = _Place(top=top, bottom=bottom, since=since, until=until)
        place = self._places.setdefault(key, first)
        place.since, place.until = min(place.since, since), max(place.until, until)
        place.top, place.bottom = min(place.top, top), max(place.bottom, bottom)
        place.sites.add(claim.site)
        place.granted.append(seconds_of(claim.granted_at))
        if claim.passed_at is not None:
            place.passed.append(float(claim.passed_at))

    def _lines(self) -> None:
        group = self.element.add("g", **{"class": "lines"})
        places = [
            (key, place)
            for key, place in self._places.items()
            if len(place.sites) > 1 and self._share(place.until) - self._share(place.since) > CROWD
        ]
        for (job, _), place in places[-LINES_MAX:]:
            granted = [at for at in place.granted if at is not None]
            release = min(place.passed, default=self.now)
            waited = release - max(granted, default=release)
            if len(granted) == len(place.granted) and waited / self.span_s > NEAR:
                self._line(
                    group, f"{job}: all at the barrier", max(granted), place, is_release=False
                )
            if place.passed:
                self._line(group, f"{job}: released", release, place, is_release=True)

    def _line(
        self, parent: Element, text: str, at: float, place: _Place, *, is_release: bool
    ) -> None:
        if not self.since <= at <= self.until:
            return
        line = parent.add(
            "line", x1=self._x(at), x2=self._x(at), y1=place.top, y2=place.bottom,
            stroke=RELEASE if is_release else BARRIER, stroke_width=1,
            **{} if is_release else {"stroke_dasharray": "3 3"},
            **{"class": "release" if is_release else "barrier-line"},
        )  # fmt: skip
        line.add("title", text)

    def _axis(self, parent: Element) -> None:
        step = next(
            (step for step in _STEPS_S if self.span_s / step <= _TICKS_MAX),
            self.span_s / _TICKS_MAX,
        )
        at = self.since - self.since % step + step
        while at < self.until:
            share = self._share(at)
            x = self._x(at)
            parent.add(
                "line", x1=x, x2=x, y1=AXIS - 4, y2=self.height, stroke=LINE, **{"class": "rule"}
            )
            if 0.03 < share < 0.97:
                text = parent.add(
                    "text", self._tick(at, step), x=x, y=11, fill=SOFT, text_anchor="middle",
                    font_size=11, **{"class": "soft"},
                )  # fmt: skip
                if self._is_calendar:
                    text.attributes = {**text.attributes, "data-at": f"{at:.3f}"}
            at += step
        if self.since <= self.now < self.until:
            x = self._x(self.now)
            parent.add(
                "line", x1=x, x2=x, y1=AXIS - 6, y2=self.height, stroke="#cc3b33",
                **{"class": "now"},
            )  # fmt: skip

    def _tick(self, at: float, step: float) -> str:
        if not self._is_calendar:
            return duration(at)
        form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86_400 else "%m-%d"
        return datetime.fromtimestamp(at, UTC).strftime(form)

    def _hatches(self) -> None:
        definitions = self.element.add("defs")
        for kind, (colour, angle) in HATCHED.items():
            pattern = definitions.add(
                "pattern", id=f"hatch-{kind}", width=5, height=5, patternUnits="userSpaceOnUse",
                patternTransform=f"rotate({angle})",
            )  # fmt: skip
            pattern.add("rect", width=5, height=5, fill=colour, fill_opacity=".18",
                        **{"class": f"hatch {kind}"})  # fmt: skip
            pattern.add("rect", width=2, height=5, fill=colour, **{"class": f"hatch {kind}"})

    def _make_reachable(self) -> None:
        """Let the Tab key come to one claim; arrow keys lead to the others."""
        first = next((element for element in _below(self.element) if element.name == "a"
                      and element.attributes.get("class") == "claim"), None)  # fmt: skip
        if first is not None:
            first.attributes = {**first.attributes, "tabindex": "0"}


def _below(element: Element) -> Iterator[Element]:
    for child in element.children:
        yield child
        yield from _below(child)


def _packed(
    claims: Sequence[ChartClaim], processors: int, now: float
) -> Iterator[tuple[ChartClaim, list[tuple[int, int]]]]:
    """Yield the claims that held processors, with where they are stacked: the lowest room that is
    wide enough, or else several."""
    held = [claim for claim in claims if claim.granted_at is not None]
    held.sort(key=lambda claim: float(claim.granted_at or 0))
    free: list[tuple[int, int]] = [(0, processors)]
    ends: list[tuple[float, int, list[tuple[int, int]]]] = []
    for number, claim in enumerate(held):
        begin = float(claim.granted_at or 0)
        while ends and ends[0][0] <= begin:
            for piece in heappop(ends)[2]:
                _give_back(free, piece)
        pieces = _take(free, claim.processors)
        end = now if claim.ended_at is None else float(claim.ended_at)
        heappush(ends, (end, number, pieces))
        yield claim, pieces or [(0, min(claim.processors, processors))]


def _take(free: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Take room from the free one: offsets and sizes."""
    whole = next((room for room in free if room[1] >= size), None)
    pieces = []
    for offset, room in [whole] if whole else list(free):
        part = min(size, room)
        free.remove((offset, room))
        if room > part:
            insort(free, (offset + part, room - part))
        pieces.append((offset, part))
        size -= part
        if not size:
            break
    return pieces


def _give_back(free: list[tuple[int, int]], piece: tuple[int, int]) -> None:
    insort(free, piece)
    joined: list[tuple[int, int]] = []
    for offset, room in free:
        if joined and joined[-1][0] + joined[-1][1] == offset:
            joined[-1] = (joined[-1][0], joined[-1][1] + room)
        else:
            joined.append((offset, room))
    free[:] = joined


def _legend(root: Element, chart: GridChart, top: float) -> None:
    x = float(MARGIN)
    for kind, word in chart.kinds:
        fill = f"url(#hatch-{kind})" if kind in HATCHED else COLOURS[kind]
        root.add("rect", x=x, y=top - 9, width=10, height=10, rx=2, fill=fill)
        root.add("text", word, x=x + 15, y=top, fill=SOFT)
        x += 32 + _CHARACTER * len(word)
    if chart.timeline.left_out:
        words = f"{chart.timeline.left_out} older claims are left out"
        root.add("text", words, x=WIDTH - MARGIN, y=top, fill=SOFT, text_anchor="end")
