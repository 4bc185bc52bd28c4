"""Bounds of options: what they allow, and how they are written."""

from __future__ import annotations

from math import inf, nan

import pytest

from koala.common.runtime.option_values import ANY_NUMBER, Bounds


@pytest.mark.parametrize(
    ("bounds", "text", "allowed", "others"),
    [
        (Bounds(low=0, high=1.0), "0 to 1", (0, 0.5, 1), (-0.1, 1.1, nan)),
        (Bounds(low=0.5), "0.5 or more", (0.5, inf), (0.4, nan)),
        (Bounds(low=0, below=inf), "0 or more", (0, 1e15), (-1, inf, nan)),
        (Bounds(low=0, below=1), "0 or more, below 1", (0, 0.9), (1, nan)),
        (Bounds(above=0), "more than 0", (1e-9, inf), (0, -1, nan)),
        (Bounds(above=0, high=1), "more than 0, at most 1", (1,), (0, 1.1)),
        (Bounds(high=3), "at most 3", (-inf, 3), (4, nan)),
        (ANY_NUMBER, "", (-inf, 0, inf), ()),
    ],
)
def test_bounds_allow_what_they_say(
    bounds: Bounds, text: str, allowed: tuple[float, ...], others: tuple[float, ...]
) -> None:
    assert str(bounds) == text
    assert [one for one in allowed if not bounds.has(one)] == []
    assert [one for one in others if bounds.has(one)] == []
