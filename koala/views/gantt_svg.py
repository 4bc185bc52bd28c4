"""The course of a job as a picture in SVG, which needs neither style sheet nor script. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koala.views.gantt import KINDS, LETTERS, Bar, BarKind, Gantt, Row

_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def visible(text: str) -> str:
    """Replace control characters, most of which XML does not allow."""
    return "".join(character if character.isprintable() else "?" for character in text)


@dataclass(slots=True)
class Element:
    """An element with its attributes, its text and its children, in order."""

    name: str
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def add(self, name: str, text: str = "", **attributes: str | float) -> Element:
        """Add a child; `_` in the name of an attribute is `-`."""
        named = {key.replace("_", "-"): value for key, value in attributes.items()}
        self.children.append(Element(name, named, text))
        return self.children[-1]

    def __str__(self) -> str:
        attributes = "".join(f' {key}="{_value(value)}"' for key, value in self.attributes.items())
        inside = _escaped(self.text) + "".join(map(str, self.children))
        return f"<{self.name}{attributes}>{inside}</{self.name}>"


def _value(value: str | float) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return _escaped(str(value))


def _escaped(text: str) -> str:
    return visible(text).translate(_MARKUP)


WIDTH = 960
LABELS = 230
"""Width of the column with components and sites."""
CHART = WIDTH - LABELS - 50
TOP = 66
LANE = 26
MARGIN = 16
LABEL_CHARACTERS_MAX = 34
SETBACK_CHARACTERS_MAX = 150
COLOURS = {
    BarKind.CLAIMING: "#8553c6",
    BarKind.BARRIER: "#d9930d",
    BarKind.RUNNING: "#2c74d6",
    BarKind.TRANSFER: "#0e9a97",
    BarKind.WASTED: "#e0847f",
}
INK, SOFT, LINE, SETBACK = "#1d2126", "#575e68", "#dfe1e0", "#cc3b33"
FONT = "system-ui, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', sans-serif"


def gantt_svg(chart: Gantt) -> str:
    """Draw a chart as a document of its own."""
    bottom = TOP + LANE * max(1, len(chart.rows))
    height = bottom + 44 + 18 * len(chart.setbacks)
    root = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": WIDTH,
            "height": height,
            "viewBox": f"0 0 {WIDTH} {height}",
            "font-family": FONT,
            "role": "img",
        },
    )
    root.add("title", chart.summary)
    root.add("rect", width=WIDTH, height=height, fill="#ffffff")
    _text(root, MARGIN, 22, chart.summary, size=15, weight="600")
    _axis(root, chart, bottom)
    for number, row in enumerate(chart.rows):
        _lane(root, chart, row, TOP + LANE * number)
    _legend(root, chart, bottom + 26)
    for number, setback in enumerate(chart.setbacks):
        text = _cut(setback.text, SETBACK_CHARACTERS_MAX)
        _text(root, MARGIN, bottom + 48 + 18 * number, text, fill=SETBACK)
    return f"{root}\n"


def _axis(root: Element, chart: Gantt, bottom: int) -> None:
    """Draw ticks, the points A to E, and the attempts that were given up."""
    for tick in chart.ticks:
        _rule(root, tick.place, bottom, LINE)
        _text(root, _x(tick.place), TOP - 6, tick.text, fill=SOFT, anchor="middle", size=11)
    for mark in chart.marks:
        _rule(root, mark.place, bottom, SOFT, stroke_dasharray="2 2")
        _text(root, _x(mark.place), TOP - 22, mark.text, anchor="middle", weight="700")
    for setback in chart.setbacks:
        _rule(root, setback.place, bottom, SETBACK)


def _lane(root: Element, chart: Gantt, row: Row, top: int) -> None:
    attempt = f" (attempt {row.attempt})" if chart.setbacks or row.attempt > 1 else ""
    place = row.site if row.label == row.site else f"{row.label} at {row.site}"
    label = f"{place}{attempt}"
    _text(root, MARGIN, top + 17, _cut(label, LABEL_CHARACTERS_MAX))
    for bar in row.stages:
        _bar(root, bar, top + 6, 13)
    for bar in row.copies:
        _bar(root, bar, top + 20, 4)


def _bar(root: Element, bar: Bar, top: int, height: int) -> None:
    width = max(1.5, CHART * (bar.until - bar.since))
    place = root.add(
        "rect", x=_x(bar.since), y=top, width=width, height=height, rx=2, fill=COLOURS[bar.kind]
    )
    place.add("title", bar.text)


def _legend(root: Element, chart: Gantt, top: int) -> None:
    x = float(MARGIN)
    for kind in chart.kinds:
        root.add("rect", x=x, y=top - 9, width=10, height=10, rx=2, fill=COLOURS[kind])
        _text(root, x + 15, top, KINDS[kind], fill=SOFT)
        x += 32 + 6.3 * len(KINDS[kind])
    _text(root, WIDTH - MARGIN, top, LETTERS, fill=SOFT, anchor="end", size=11)


def _x(place: float) -> float:
    return LABELS + CHART * place


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _rule(root: Element, place: float, bottom: int, stroke: str, **more: str) -> None:
    x = _x(place)
    root.add("line", x1=x, x2=x, y1=TOP, y2=bottom, stroke=stroke, **more)


def _text(
    root: Element,
    x: float,
    y: float,
    text: str,
    *,
    fill: str = INK,
    anchor: str = "start",
    size: int = 12,
    weight: str = "400",
) -> None:
    style = {"fill": fill, "text_anchor": anchor, "font_weight": weight}
    root.add("text", text, x=x, y=y, font_size=size, **style)
