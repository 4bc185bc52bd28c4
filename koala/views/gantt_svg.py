"""The course of a job as a picture in SVG, which needs neither style sheet nor script. Pure."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

from koala.views.gantt import KINDS, LETTERS, Bar, BarKind, Gantt, Row

WIDTH = 960
LABELS = 230
"""Width of the column with components and sites."""
CHART = WIDTH - LABELS - 50
TOP = 66
LANE = 26
CHARACTERS_MAX = 34
"""Characters of a label that fit their column."""
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
            "width": str(WIDTH),
            "height": str(height),
            "viewBox": f"0 0 {WIDTH} {height}",
            "font-family": FONT,
            "font-size": "12",
            "role": "img",
        },
    )
    SubElement(root, "title").text = _visible(chart.summary)
    SubElement(root, "rect", {"width": str(WIDTH), "height": str(height), "fill": "#ffffff"})
    _text(root, 16, 22, chart.summary, size=15, weight="600")
    _axis(root, chart, bottom)
    for number, row in enumerate(chart.rows):
        _lane(root, chart, row, TOP + LANE * number)
    _legend(root, chart, bottom + 26)
    for number, setback in enumerate(chart.setbacks):
        _text(root, 16, bottom + 48 + 18 * number, setback.text, fill=SETBACK)
    return tostring(root, encoding="unicode") + "\n"


def _axis(root: Element, chart: Gantt, bottom: int) -> None:
    """Draw ticks, the points A to E, and the attempts that were given up."""
    for tick in chart.ticks:
        _rule(root, tick.place, TOP, bottom, LINE)
        _text(root, _x(tick.place), TOP - 6, tick.text, fill=SOFT, anchor="middle", size=11)
    for mark in chart.marks:
        _rule(root, mark.place, TOP, bottom, SOFT, dashes="2 2")
        _text(root, _x(mark.place), TOP - 22, mark.text, anchor="middle", weight="700")
    for setback in chart.setbacks:
        _rule(root, setback.place, TOP, bottom, SETBACK)


def _lane(root: Element, chart: Gantt, row: Row, top: int) -> None:
    attempt = f" (attempt {row.attempt})" if chart.setbacks or row.attempt > 1 else ""
    label = f"{row.label} at {row.site}{attempt}"
    _text(root, 16, top + 17, label)
    for bar in row.stages:
        _bar(root, bar, top + 6, 13)
    for bar in row.copies:
        _bar(root, bar, top + 20, 4)


def _bar(root: Element, bar: Bar, top: int, height: int) -> None:
    attributes = {
        "x": _number(_x(bar.since)),
        "y": str(top),
        "width": _number(max(1.5, CHART * (bar.until - bar.since))),
        "height": str(height),
        "rx": "2",
        "fill": COLOURS[bar.kind],
    }
    SubElement(SubElement(root, "rect", attributes), "title").text = _visible(bar.text)


def _legend(root: Element, chart: Gantt, top: int) -> None:
    x = 16.0
    for kind in chart.kinds:
        box = {"x": _number(x), "y": str(top - 9), "width": "10", "height": "10", "rx": "2"}
        SubElement(root, "rect", {**box, "fill": COLOURS[kind]})
        _text(root, x + 15, top, KINDS[kind], fill=SOFT)
        x += 32 + 6.3 * len(KINDS[kind])
    _text(root, WIDTH - 16, top, LETTERS, fill=SOFT, anchor="end", size=11)


def _x(place: float) -> float:
    return LABELS + CHART * place


def _rule(root: Element, place: float, top: int, bottom: int, fill: str, dashes: str = "") -> None:
    x = _number(_x(place))
    attributes = {"x1": x, "x2": x, "y1": str(top), "y2": str(bottom), "stroke": fill}
    SubElement(root, "line", attributes | ({"stroke-dasharray": dashes} if dashes else {}))


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
    room = CHARACTERS_MAX if x < LABELS and y > TOP and fill == INK else 150
    shown = _visible(text)
    attributes = {
        "x": _number(x),
        "y": _number(y),
        "fill": fill,
        "text-anchor": anchor,
        "font-size": str(size),
        "font-weight": weight,
    }
    element = SubElement(root, "text", attributes)
    element.text = shown if len(shown) <= room else f"{shown[: room - 1]}…"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _visible(text: str) -> str:
    """Replace control characters, most of which XML does not allow."""
    return "".join(one if one.isprintable() else "?" for one in text)
