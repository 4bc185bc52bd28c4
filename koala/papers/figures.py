"""Figures as SVG and PNG, and the numbers behind each as CSV.

The same results give the same bytes: no date is written, and the names inside an SVG come from a
fixed salt. Bars and points carry the 95 % confidence interval over the replications. A saturated
system has no mean response time and is marked SAT as in the papers.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from math import ceil, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koala.papers.paper import Figure, Panel
from koala.papers.results import Results
from koala.papers.runs import Quantity
from koala.runtime.atomic_file import whole_file, write_whole
from koala.sim.statistics import Interval

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
COLUMNS = ("panel", "series", "x", "metric", "setting", "mean", "ci95", "replications", "saturated")
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
"""Seven colours that people with any colour vision can tell apart (Paul Tol's bright scheme)."""
DENSE = 30
"""A line with more points than this gets a band instead of bars for its intervals."""


def tabulate(figure: Figure, results: Results, folder: Path) -> Path:
    """Write figure-NN.csv in the folder."""
    table = _stem(figure, folder).with_suffix(".csv")
    write_whole(table, as_csv(figure, results))
    return table


def as_csv(figure: Figure, results: Results) -> str:
    """Format a line for each bar or point; an empty mean is not measured or saturated."""
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for panel in figure.panels:
        for name, x, quantity in panel.points:
            found = results.interval(quantity)
            setting = quantity.setting
            lines.writerow(
                (
                    *(panel.title, name, x, quantity.metric, setting),
                    _number(found.mean),
                    _number(found.ci95) if isfinite(found.mean) else "",
                    results.replications(setting),
                    "yes" if results.is_saturated(setting) else "no",
                )
            )
    return text.getvalue()


def draw(figure: Figure, results: Results, folder: Path) -> tuple[Path, Path]:
    """Write figure-NN.svg and .png in the folder."""
    stem = _stem(figure, folder)
    vector, bitmap = stem.with_suffix(".svg"), stem.with_suffix(".png")
    picture(figure.panels, f"Figure {figure.number}. {figure.title}", results, (vector, bitmap))
    return vector, bitmap


def picture(panels: Sequence[Panel], title: str, results: Results, paths: Sequence[Path]) -> None:
    """Draw panels in one drawing, to files whose suffixes choose the format."""
    from matplotlib import style  # noqa: PLC0415 - takes longer to import than a short run

    with style.context(STYLE, after_reset=True):  # kinds of fonts are chosen when it is saved
        drawing = compose(panels, title, results)
        for path in paths:
            save(drawing, path)


def compose(panels: Sequence[Panel], title: str, results: Results) -> Drawing:
    """Draw panels in one drawing."""
    from matplotlib import style  # noqa: PLC0415 - takes longer to import than a short run
    from matplotlib.figure import Figure as Drawing  # noqa: PLC0415

    with style.context(STYLE, after_reset=True):
        columns = min(len(panels), 3)
        rows = ceil(len(panels) / columns)
        width = 7.0 if columns == 1 else 4.2 * columns
        drawing = Drawing(figsize=(width, 2.9 * rows + 0.6), layout="constrained")
        for index, panel in enumerate(panels, start=1):
            _draw_panel(drawing.add_subplot(rows, columns, index), panel, results)
        drawing.suptitle(title, fontsize=10)
        _add_legend(drawing)
    return drawing


def save(drawing: Drawing, path: Path) -> None:
    """Save a drawing reproducibly: the same drawing gives the same bytes."""
    from matplotlib import rc_context  # noqa: PLC0415 - takes longer to import than a short run

    dates = {".svg": {"Date": None}, ".png": {"Software": None}, ".pdf": {"CreationDate": None}}
    with (
        rc_context({"svg.hashsalt": "koala"}),  # ids of an SVG are random without it
        whole_file(path) as part,
    ):
        drawing.savefig(part, dpi=150, metadata=dates.get(path.suffix))


def _stem(figure: Figure, folder: Path) -> Path:
    return folder / f"figure-{figure.number:02d}"


def _add_legend(drawing: Drawing) -> None:
    """Add one legend for all panels, each name once."""
    found: dict[str, Any] = {}
    for axes in drawing.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if len(found) > 1:
        drawing.legend(
            list(found.values()), list(found), loc="outside lower center", ncols=len(found)
        )


def _draw_panel(axes: Axes, panel: Panel, results: Results) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.x and isinstance(panel.x[0], str):
        _draw_bars(axes, panel, results)
    else:
        _draw_lines(axes, panel, results)
    axes.set_ylim(bottom=0)


def _draw_bars(axes: Axes, panel: Panel, results: Results) -> None:
    share = 0.8 / len(panel.series)
    for index, (name, quantities) in enumerate(panel.series.items()):
        middle = (index - (len(panel.series) - 1) / 2) * share
        places = [place + middle for place in range(len(quantities))]
        found = [_measured(quantity, results) for quantity in quantities]
        axes.bar(
            places,
            [one.mean if one else 0.0 for one in found],
            width=share,
            yerr=[one.ci95 if one and isfinite(one.ci95) else 0.0 for one in found],
            label=name,
            color=COLOURS[index % len(COLOURS)],
            error_kw={"elinewidth": 0.8, "capsize": 1.5},
        )
        for place, quantity in zip(places, quantities, strict=True):
            if quantity is not None and results.is_divergent(quantity):
                axes.annotate(
                    "SAT", (place, 0), ha="center", va="bottom", rotation=90, fontsize=7,
                    xytext=(0, 2), textcoords="offset points",
                )  # fmt: skip
    axes.set_xticks(range(len(panel.x)), [str(word) for word in panel.x])


def _draw_lines(axes: Axes, panel: Panel, results: Results) -> None:
    for index, (name, quantities) in enumerate(panel.series.items()):
        points = [
            (float(x), found)
            for x, quantity in zip(panel.x, quantities, strict=True)
            if (found := _measured(quantity, results))
        ]
        places = [x for x, _ in points]
        means = [found.mean for _, found in points]
        widths = [found.ci95 if isfinite(found.ci95) else 0.0 for _, found in points]
        colour = COLOURS[index % len(COLOURS)]
        if len(points) > DENSE:
            axes.plot(places, means, label=name, color=colour, linewidth=1)
            low = [mean - width for mean, width in zip(means, widths, strict=True)]
            high = [mean + width for mean, width in zip(means, widths, strict=True)]
            axes.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)
        else:
            axes.errorbar(
                places, means, yerr=widths, label=name, color=colour,
                marker="o", markersize=2.5, linewidth=1, elinewidth=0.8, capsize=1.5,
            )  # fmt: skip


def _measured(quantity: Quantity | None, results: Results) -> Interval | None:
    """Return its mean, or None if there is none to draw."""
    if quantity is None:
        return None
    found = results.interval(quantity)
    return found if isfinite(found.mean) else None


def _number(value: float) -> str:
    return f"{value:.6g}" if isfinite(value) else ""
