"""Page of results: tables of all settings, in Markdown, and two figures.

The same runs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from textwrap import fill
from typing import Any

from koala.common.runtime.atomic_file import write_atomically
from koala.lab.backlog.scores import PLAIN, Bounds, Campaign
from koala.lab.rows import Rows, markdown, short
from koala.lab.sim.drawing import COLOURS, STYLE, save

HEADS = {
    "policy": "policy",
    "runs": "runs",
    "median_ratio": "median",
    "median_ci95": "95 %",
    "p90_ratio": "p90",
    "mean_ratio": "mean",
    "waste_percent": "wasted, %",
    "in_72h_percent": "in 72 h, %",
    "given_back": "given back",
    "harm_s": "harm, s",
    "plain_harm_s": "of plain jobs, s",
}
"""Columns of the table of a setting."""
SCENE_HEADS = {
    "sites": "sites",
    "policy": "policy",
    "median_h": "median, h",
    "p90_h": "p90, h",
    "mean_h": "mean, h",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Results of a campaign: its table, and that by scene."""

    campaign: Campaign
    bounds: Bounds
    runs: Rows
    table: Rows
    scenes: Rows


def shown(rows: Rows, heads: dict[str, str]) -> list[list[str]]:
    """Format the cells of a table."""
    return [[_cell(row, name) for name in heads] for row in rows]


def _cell(row: dict[str, Any], name: str) -> str:
    if name == "median_ci95":
        ends = row["median_low"], row["median_high"]
        return "-".join(f"{end:.2f}" for end in ends) if isfinite(ends[1]) else "-"
    return short(row[name])


def machines(found: Sequence[Found]) -> list[str]:
    """Describe each machine without these jobs: utilization and mean wait."""
    lines: dict[str, None] = {}
    for values in (values for one in found for values in one.bounds.alone.values()):
        for name in (key.removesuffix(" utilization") for key in values if "utilization" in key):
            busy, wait_s = values[f"{name} utilization"], values[f"{name} wait_s"]
            lines[f"{name}: {100 * busy:.0f} % busy, mean wait {wait_s / 3600:.1f} h"] = None
    return [*lines]


def write(found: Sequence[Found], folder: Path, command: str) -> None:
    """Write results.md and its figures in the folder."""
    names = [_draw(found, folder, metric) for metric in FIGURES]
    lines = ["# Results of co-allocation over busy sites", "", f"Made by `{command}`.", ""]
    lines += [line for name, text in names for line in (f"![{text}]({name})", "")]
    lines += ["## Machines", "", *(f"- {line}" for line in machines(found)), ""]
    for one in found:
        tables = [
            markdown(heads.values(), shown(rows, heads))
            for rows, heads in ((one.table, HEADS), (one.scenes, SCENE_HEADS))
        ]
        lines += [f"## {one.campaign}", "", tables[0], "", "Waits by scene:", "", tables[1], ""]
    write_atomically(folder / "results.md", "\n".join(lines[:-1]) + "\n")


RATIO = "median_ratio"
FIGURES = {
    RATIO: "median wait, by that of plain jobs",
    "waste_percent": "processor time held in vain, percent of that of jobs",
}
"""Metrics that are drawn."""


def _draw(found: Sequence[Found], folder: Path, metric: str) -> tuple[str, str]:
    """Draw a metric: bars of each policy in each setting, medians with their 95 % confidence
    intervals. Return the name of the file and its text."""
    from matplotlib import style  # noqa: PLC0415 - takes longer to import than a short run
    from matplotlib.figure import Figure as Drawing  # noqa: PLC0415
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    with style.context(STYLE, after_reset=True):
        drawing = Drawing(figsize=(7.0, 1.2 + 0.6 * len(found)), layout="constrained")
        axes = drawing.add_subplot()
        for index, policy in enumerate(_policies(found)):
            rows = [
                (number + 0.2 * (names.index(policy) - (len(names) - 1) / 2), row)
                for number, one in enumerate(found)
                if policy in (names := _policies([one]))
                for row in one.table.where(policy=policy)
            ]
            places, values = [place for place, _ in rows], [row[metric] for _, row in rows]
            axes.barh(places, values, 0.18, label=policy, color=COLOURS[index])
            if metric == RATIO:
                ends = [_errors(row) for _, row in rows]
                axes.errorbar(
                    values, places, xerr=[*zip(*ends, strict=True)], fmt="none", ecolor="black"
                )
        axes.set_yticks(range(len(found)), [fill(str(one.campaign), 28) for one in found])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(FIGURES[metric])
        axes.legend()
        save(drawing, folder / f"{metric}.svg")
    return f"{metric}.svg", FIGURES[metric]


def _policies(found: Sequence[Found]) -> list[str]:
    """Return the policies of some settings, without the plain jobs."""
    names = dict.fromkeys(row["policy"] for one in found for row in one.table)
    return [name for name in names if name != PLAIN]


def _errors(row: dict[str, Any]) -> tuple[float, float]:
    """Return how far the confidence interval reaches to both sides; nothing of one run."""
    ends = row[RATIO] - row["median_low"], row["median_high"] - row[RATIO]
    return ends if isfinite(ends[1]) else (0.0, 0.0)
