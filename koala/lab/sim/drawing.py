"""Style of all figures, axes and lines that several share, and how a figure is saved."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koala.common.runtime.atomic_file import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "legend.frameon": False,
}
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
"""Six colours that people with any colour vision can tell apart (Paul Tol's bright scheme)."""

MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":")
_DURATIONS = {
    0: "0",
    1: "1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3_600: "1 h",
    86_400: "1 d",
    864_000: "10 d",
    8_640_000: "100 d",
}
"""Ticks of an axis of durations, by their seconds."""


def size_class(processors: int) -> int:
    """Return the number of a class of sizes: 1, 2 to 4, 5 to 16, 17 to 64, and so on."""
    return ((processors - 1).bit_length() + 1) // 2


def size_class_name(number: int, largest: int) -> str:
    """Name a class of sizes by its least and most processors, where the largest job has so many."""
    least, most = 4 ** (number - 1) + 1, min(4**number, largest)
    return f"{least}–{most}" if number and least < most else str(most)


def draw_shares(
    axes: Axes, counts: Mapping[Any, int], *, label: str, number: int, of: int | None = None
) -> None:
    """Draw the share of values that are at most so large, of `of` values in all. `number` chooses
    colour and dashes."""
    values = sorted(counts)
    total = of or sum(counts.values()) or 1
    shares = [count / total for count in accumulate(counts[value] for value in values)]
    axes.step(
        [*values[:1], *values], [0.0, *shares][: len(values) + 1] if values else [],
        where="post", label=label, linewidth=1.2,
        color=COLOURS[number % len(COLOURS)], linestyle=DASHES[number % len(DASHES)],
    )  # fmt: skip


def mark_saturated(
    axes: Axes, place: float, colour: str, *, at_top: bool = False, shift: float = 0.0
) -> None:
    """Write SAT where a system is saturated: at the axis, or at the top of a line's chart."""
    axes.annotate(
        "SAT",
        (place, 1 if at_top else 0),
        xycoords=("data", "axes fraction"),
        ha="center", va="top" if at_top else "bottom", rotation=90, fontsize=7, color=colour,
        xytext=(shift, -2 if at_top else 2), textcoords="offset points",
    )  # fmt: skip


def scale_durations(axes: Axes, largest_s: float) -> None:
    """Give an axis of durations a logarithmic scale that has 0, with ticks that have units."""
    axes.set_xscale("symlog", linthresh=1)
    ticks = [one for one in _DURATIONS if one <= max(largest_s, 1)]
    axes.set_xticks(ticks, [_DURATIONS[one] for one in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.tick_params(axis="x", labelrotation=30)
    axes.set_xlim(0, max(largest_s, 1) * 1.1)


def save(drawing: Drawing, path: Path) -> None:
    """Save a drawing reproducibly: the same drawing gives the same bytes."""
    from matplotlib import rc_context  # noqa: PLC0415 - takes longer to import than a short run

    dates = {".svg": {"Date": None}, ".png": {"Software": None}, ".pdf": {"CreationDate": None}}
    with (
        rc_context({"svg.hashsalt": "koala"}),  # ids of an SVG are random without it
        atomic_file(path) as part,
    ):
        drawing.savefig(part, dpi=150, metadata=dates.get(path.suffix))
