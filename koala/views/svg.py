"""Elements of a picture in SVG, as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def visible(text: str) -> str:
    """Replace control characters, most of which XML does not allow."""
    return "".join(one if one.isprintable() else "?" for one in text)


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
        attributes = "".join(f' {key}="{_value(one)}"' for key, one in self.attributes.items())
        inside = _escaped(self.text) + "".join(map(str, self.children))
        return f"<{self.name}{attributes}>{inside}</{self.name}>"


def _value(value: str | float) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return _escaped(str(value))


def _escaped(text: str) -> str:
    return visible(text).translate(_MARKUP)
