"""Figures as SVG and PNG, and the numbers behind each as CSV.

The same results give the same bytes: no date is written, and the names inside an SVG come from a
fixed salt. Bars and points carry the 95 % confidence interval over the replications. A mean
that grows with the length of the run, as a saturated system's response time does, is marked SAT.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO
from math import ceil, isfinite
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from koala.common.runtime.atomic_file import write_atomically
from koala.lab.papers.paper import Difference, Drawn, Figure, Mark, Panel, parts_of
from koala.lab.papers.results import Results, digits, tabled
from koala.lab.sim.drawing import COLOURS, MARKERS, STYLE, mark_saturated, save
from koala.lab.sim.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

COLUMNS = ("panel", "series", "x", "metric", "setting", "mean", "ci95", "replications", "saturated")
GREY, LINE, DASHES = "#bbbbbb", "#888888", ("--", ":", "-.")
"""Colours of the bands and lines that are numbers of the paper; styles of the lines."""
Styles = Mapping[str, tuple[str, str]]
DENSE = 30
"""A line with more points than this gets a band instead of bars for its intervals."""
NAMES = 7
"""Names in a row of the legend, at most."""
LETTER, HANDLE = 4.7, 40.0
"""Widths in the legend, in points: of a letter in the mean, of a handle with its spaces."""
PAPER = "paper: "
"""Begins the names of the paper's numbers, which come last in the legend."""
LABEL = 34
"""Letters of a label that fit along the y axis of a chart."""
HEADROOM = 1.06
TICKS = 8
"""A chart over at most so many whole numbers has its ticks at these."""


def tabulate(figure: Figure, results: Results, folder: Path) -> Path:
    """Write figure-NN.csv in the folder."""
    table = _stem(figure, folder).with_suffix(".csv")
    write_atomically(table, as_csv(figure, results))
    return table


def as_csv(figure: Figure, results: Results) -> str:
    """Format a line for each bar or point; an empty mean is not measured or saturated."""
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for panel in figure.panels:
        for name, x, drawn in panel.points:
            found = results.drawn(drawn)
            settings = [quantity.setting for quantity in parts_of(drawn)]
            lines.writerow(
                (
                    *(panel.title, name, x, parts_of(drawn)[0].metric),
                    " less ".join(map(str, settings)),
                    _number(found.mean),
                    _number(found.ci95) if isfinite(found.mean) else "",
                    results.replications_of(drawn),
                    "yes" if results.is_any_saturated(drawn) else "no",
                )
            )
    return text.getvalue()


def draw(figure: Figure, results: Results, folder: Path, caption: str = "") -> tuple[Path, Path]:
    """Write figure-NN.svg and .png in the folder, with the caption below the charts."""
    stem = _stem(figure, folder)
    vector, bitmap = stem.with_suffix(".svg"), stem.with_suffix(".png")
    title = f"Figure {figure.number}. {figure.title}"
    picture(figure.panels, title, results, (vector, bitmap), caption)
    return vector, bitmap


def picture(
    panels: Sequence[Panel],
    title: str,
    results: Results,
    paths: Sequence[Path],
    caption: str = "",
) -> None:
    """Draw panels in one drawing, to files whose suffixes choose the format."""
    from matplotlib import style  # noqa: PLC0415 - takes longer to import than a short run

    with style.context(STYLE, after_reset=True):  # kinds of fonts are chosen when it is saved
        drawing = compose(panels, title, results, caption)
        for path in paths:
            save(drawing, path)


def compose(panels: Sequence[Panel], title: str, results: Results, caption: str = "") -> Drawing:
    """Draw panels in one drawing. A panel of which nothing was measured is left out."""
    from matplotlib import style  # noqa: PLC0415 - takes longer to import than a short run
    from matplotlib.figure import Figure as Drawing  # noqa: PLC0415

    with style.context(STYLE, after_reset=True):
        shown = [panel for panel in panels if _has_something(panel, results)] or panels[:1]
        columns = _columns(len(shown))
        rows = ceil(len(shown) / columns)
        width = {1: 7.0, 4: 14.0}.get(columns, 4.2 * columns)
        drawing = Drawing(figsize=(width, 2.9 * rows + 0.6), layout="constrained")
        styles = _styles(shown)
        for index, panel in enumerate(shown, start=1):
            _draw_panel(drawing.add_subplot(rows, columns, index), panel, results, styles)
        drawing.suptitle(title, fontsize=10)
        _add_legend(drawing, fill(caption, round(19 * width)), width)
    return drawing


def _columns(panels: int) -> int:
    """Choose the number of columns that leaves the fewest places empty."""
    if panels <= 4:
        return 2 if panels == 4 else panels
    return min((3, 4), key=lambda columns: -panels % columns)


def _styles(panels: Sequence[Panel]) -> Styles:
    """Give each name of a drawing one colour and one marker, in all its charts."""
    names = dict.fromkeys(name for panel in panels for name in panel.series)
    return {
        name: (COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)])
        for index, name in enumerate(names)
    }


def _stem(figure: Figure, folder: Path) -> Path:
    return folder / f"figure-{figure.number:02d}"


def _add_legend(drawing: Drawing, caption: str, width: float) -> None:
    """Add one legend for all panels, each name once, below the caption."""
    found: dict[str, Any] = {}
    for axes in drawing.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    found = dict(sorted(found.items(), key=lambda one: one[0].startswith(PAPER)))
    if len(found) > 1:
        drawing.legend(
            list(found.values()), list(found), loc="outside lower center",
            ncols=_legend_columns(list(found), 72 * width), title=caption, title_fontsize=6.5,
        )  # fmt: skip
    elif caption:
        drawing.supxlabel(caption, fontsize=6.5)


def _legend_columns(names: Sequence[str], width: float) -> int:
    """Return the most columns with which a legend is no wider than its drawing, in points."""
    for columns in range(min(len(names), NAMES), 1, -1):
        rows = ceil(len(names) / columns)
        longest = [max(map(len, names[at : at + rows])) for at in range(0, len(names), rows)]
        if LETTER * sum(longest) + HANDLE * columns < width:
            return columns
    return 1


def _has_something(panel: Panel, results: Results) -> bool:
    """Return True if there is a mean, or SAT in its place; two saturated systems have no
    difference, so charts of differences need a mean."""
    return any(
        isfinite(results.drawn(one).mean)
        or (results.is_drawn_saturated(one) and not isinstance(one, Difference))
        for _, _, one in panel.points
    )


def _draw_panel(axes: Axes, panel: Panel, results: Results, styles: Styles) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(fill(panel.y_label, LABEL))
    for index, mark in enumerate(panel.marks):
        _draw_mark(axes, mark, DASHES[index % len(DASHES)])
    if panel.x and isinstance(panel.x[0], str):
        _draw_bars(axes, panel, results, styles)
    else:
        _draw_lines(axes, panel, results, styles)
    low, high = axes.dataLim.intervaly
    if low < 0 and any(isinstance(one, Difference) for _, _, one in panel.points):
        axes.axhline(0, color="black", linewidth=0.6)
    elif isfinite(high) and high > 0:
        axes.set_ylim(0, HEADROOM * high)
    else:
        axes.set_ylim(bottom=0)
    if max(map(abs, axes.get_ylim())) >= 10_000:
        axes.yaxis.set_major_formatter("{x:,.0f}")


def _draw_mark(axes: Axes, mark: Mark, dashes: str) -> None:
    """Draw a number of the paper behind what was measured."""
    label = f"{PAPER}{mark.text}"
    if mark.high is None:
        axes.axhline(mark.low, label=label, color=LINE, linestyle=dashes, linewidth=1, zorder=0)
    else:
        axes.axhspan(mark.low, mark.high, label=label, color=GREY, alpha=0.4, linewidth=0, zorder=0)


def _draw_bars(axes: Axes, panel: Panel, results: Results, styles: Styles) -> None:
    share = 0.8 / len(panel.series)
    for index, (name, shown) in enumerate(panel.series.items()):
        middle = (index - (len(panel.series) - 1) / 2) * share
        at = [(place + middle, one) for place, one in enumerate(shown) if one is not None]
        points = [(place, found) for place, one in at if (found := _measured(one, results))]
        axes.bar(
            [place for place, _ in points],
            [found.mean for _, found in points],
            width=share,
            yerr=[found.ci95 if isfinite(found.ci95) else 0.0 for _, found in points],
            label=name,
            color=styles[name][0],
            error_kw={"elinewidth": 0.8, "capsize": 1.5},
        )
        for place, one in at:
            if results.is_drawn_saturated(one):
                mark_saturated(axes, place, "black")
    axes.set_xticks(range(len(panel.x)), [str(word) for word in panel.x])
    axes.set_xlim(-0.5, len(panel.x) - 0.5)


def _draw_lines(axes: Axes, panel: Panel, results: Results, styles: Styles) -> None:
    marked: Counter[float] = Counter()
    for name, shown in panel.series.items():
        colour, marker = styles[name]
        at = [(float(x), one) for x, one in zip(panel.x, shown, strict=True) if one is not None]
        points = [(x, found) for x, one in at if (found := _measured(one, results))]
        places = [x for x, _ in points]
        means = [found.mean for _, found in points]
        widths = [found.ci95 if isfinite(found.ci95) else 0.0 for _, found in points]
        if len(points) > DENSE:
            axes.plot(places, means, label=name, color=colour, linewidth=1)
            low = [mean - width for mean, width in zip(means, widths, strict=True)]
            high = [mean + width for mean, width in zip(means, widths, strict=True)]
            axes.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)
        else:
            axes.errorbar(
                places, means, yerr=widths, label=name, color=colour,
                marker=marker, markersize=3, linewidth=1, elinewidth=0.8, capsize=1.5,
            )  # fmt: skip
        for x, one in at:
            if results.is_drawn_saturated(one):
                mark_saturated(axes, x, colour, at_top=True, shift=7.0 * marked[x])
                marked[x] += 1
    if len(panel.x) <= TICKS and all(float(x).is_integer() for x in panel.x):
        axes.set_xticks([float(x) for x in panel.x], [f"{float(x):g}" for x in panel.x])


def _measured(one: Drawn | None, results: Results) -> Interval | None:
    """Return its mean, or None if there is none to draw."""
    if one is None:
        return None
    found = results.drawn(one)
    return tabled(found) if isfinite(found.mean) else None


def _number(value: float) -> str:
    return digits(value) if isfinite(value) else ""
