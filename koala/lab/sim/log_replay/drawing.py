"""Plot of a replay: utilisation of the site, demand, and waiting times."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Drawing

from koala.lab.sim.drawing import save
from koala.lab.sim.log_replay.series import BinnedLevel, Series

_DAY_S = 86_400


def draw(series: Series, found: Mapping[str, Any], path: Path) -> None:
    """Draw busy and waited-for processors over time, and the distribution of waits, to a file."""
    drawing = Drawing(figsize=(7, 8), layout="constrained")
    busy, wanted, waited = drawing.subplots(3, 1)
    wanted.sharex(busy)
    for axes, level, label in (
        (busy, series.busy, "busy processors"),
        (wanted, series.wanted, "processors waited for"),
    ):
        axes.stairs(*_steps(level, found["makespan"]), fill=True)
        axes.set_ylabel(label)
    busy.axhline(found["processors"], color="black", linewidth=0.8)
    busy.set_title(f"{found['file']}, {found['policy']}, {found['processors']} processors")
    wanted.set_xlabel("days from the first submission")
    waits = series.waits
    values = sorted(waits.values)
    shares = [sum_ / max(waits.count, 1) for sum_ in accumulate(waits.values[v] for v in values)]
    waited.step(values, shares, where="post")
    waited.set_xscale("symlog", linthresh=1)
    waited.set_xlabel("wait, s")
    waited.set_ylabel("share of the jobs")
    waited.set_ylim(0, 1.02)
    save(drawing, path)


def _steps(level: BinnedLevel, end: int) -> tuple[list[float], list[float]]:
    used = max(1, -(-end // level.width))
    means = level.means()[:used]
    return means, [index * level.width / _DAY_S for index in range(len(means) + 1)]
