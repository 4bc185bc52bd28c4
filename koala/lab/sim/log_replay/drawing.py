"""Plot of a replay: utilisation of the site, demand, and waits by size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure as Drawing

from koala.lab.sim.drawing import (
    COLOURS,
    STYLE,
    draw_shares,
    save,
    scale_durations,
    size_class_name,
)
from koala.lab.sim.log_replay.series import BinnedLevel, Series

_SPANS = {1: "s", 60: "min", 600: "10 min", 3_600: "h", 86_400: "day", 604_800: "week"}
_UNITS = (("days", 86_400, 2 * 86_400), ("hours", 3_600, 2 * 3_600), ("s", 1, 0))
"""Units of the time axis with their seconds, and from which length each is used."""


def draw(series: Series, found: Mapping[str, Any], path: Path) -> None:
    """Draw utilisation and waited-for processors over time, and the distribution of waits by size
    of the jobs, to a file."""
    with style.context(STYLE, after_reset=True):
        save(compose(series, found), path)


def compose(series: Series, found: Mapping[str, Any]) -> Drawing:
    """Compose the plot."""
    drawing = Drawing(figsize=(7, 7.5), layout="constrained")
    used, wanted, waited = drawing.subplots(3, 1)
    wanted.sharex(used)
    end, processors = found["makespan"], found["processors"]
    unit, divisor = next((unit, seconds) for unit, seconds, least in _UNITS if end >= least)
    per = _SPANS.get(series.busy.width, f"{series.busy.width // 86_400} days")
    for axes, level, of, label, colour in (
        (used, series.busy, processors / 100, f"utilization (%), mean per {per}", COLOURS[0]),
        (wanted, series.wanted, 1, f"processors waited for,\nmean per {per}", COLOURS[1]),
    ):
        means, edges = _steps(level, end)
        axes.stairs(
            [mean / of for mean in means],
            [edge / divisor for edge in edges],
            color=colour,
            linewidth=0.9,
        )
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    used.set_ylim(0, 104)
    used.axhline(
        100 * (found["utilization"] or 0), color="black", linestyle="--", linewidth=0.8,
        label=f"mean: {100 * (found['utilization'] or 0):.1f} %",
    )  # fmt: skip
    used.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    used.set_title(f"{found['file']} under {found['policy']}, {processors} processors")
    wanted.set_xlabel(f"{unit} from the first submission")
    for number, (size, waits) in enumerate(sorted(series.waits.items())):
        name = f"{size_class_name(size, processors)} ({waits.count:,})"
        draw_shares(waited, waits.values, label=name, number=number)
    scale_durations(waited, max((one.largest for one in series.waits.values()), default=0))
    waited.set_xlabel("wait")
    waited.set_ylabel("share of the jobs")
    waited.set_ylim(0, 1.02)
    if series.waits:
        waited.legend(title="processors (jobs)", loc="center left", bbox_to_anchor=(1.01, 0.5))
    return drawing


def _steps(level: BinnedLevel, end: int) -> tuple[list[float], list[int]]:
    """Return the means, and the seconds between which they are."""
    means = level.means()[: max(1, -(-end // level.width))]
    return means, [index * level.width for index in range(len(means) + 1)]
