"""The maximal utilisations of the policies: placeholder until measured."""

from __future__ import annotations

MAXIMA: dict[tuple[tuple[int, ...], bool], dict[str, float]] = {}
