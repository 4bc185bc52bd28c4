"""Charts as points and paths, for templates that draw them as SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from koala.views.cells import duration
from koala.views.usage import SAMPLES_MAX, STEP_S, Use

WIDTH, HEIGHT = 1000.0, 100.0
"""Units of the drawing; it is stretched to its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """An area of a stacked chart: its class and its outline."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageChart:
    """Stacked areas from the oldest sample to now, and the time that they span."""

    areas: tuple[Area, ...]
    span: str
    peak: int


def usage_chart(samples: Iterable[tuple[float, Use]]) -> UsageChart | None:
    """Stack the processors that are in use; None before there are two samples."""
    points = list(samples)
    if len(points) < 2:
        return None
    last_at = points[-1][0]
    span_s = max(60.0, min(last_at - points[0][0], SAMPLES_MAX * STEP_S))
    peak = max(1, *(use.processors for _, use in points))

    def x(at: float) -> float:
        return WIDTH * (1 - (last_at - at) / span_s)

    below = [0.0] * len(points)
    areas = []
    for kind in ("running", "waiting", "others"):
        above = [
            low + HEIGHT * getattr(use, kind) / peak
            for low, (_, use) in zip(below, points, strict=True)
        ]
        path = outline([x(at) for at, _ in points], below, above)
        areas.append(Area(kind=kind, path=path))
        below = above
    return UsageChart(areas=tuple(areas), span=duration(span_s), peak=peak)


def outline(places: Sequence[float], below: Sequence[float], above: Sequence[float]) -> str:
    """Outline an area between two lines as an SVG path; heights grow upward."""
    there = [f"{x:.1f} {HEIGHT - y:.1f}" for x, y in zip(places, above, strict=True)]
    back = [f"{x:.1f} {HEIGHT - y:.1f}" for x, y in zip(places, below, strict=True)]
    return f"M{' L'.join([*there, *reversed(back)])}Z"
