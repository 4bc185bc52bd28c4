"""The maximal utilisations of the policies: placeholder until measured."""

from __future__ import annotations

MAXIMA: dict[tuple[tuple[int, ...], bool], dict[str, float]] = {}
MIXES = ((25, 25, 25, 25), (100, 0, 0, 0), (50, 0, 0, 50), (0, 0, 0, 100), (50, 25, 25, 0))
MIXES += ((0, 50, 50, 0), (50, 50, 0, 0), (80, 0, 0, 20), (90, 0, 0, 10))
ALL = [
    "GS",
    "LS-OR",
    "LS-RD",
    "LS-RO",
    "LS-DO",
    "GP",
    "LP-LF",
    "LP-GF",
    "LP-RD",
    "EQ-LF",
    "EQ-GF",
    "EQ-RD",
    "LQ",
]
for mix in MIXES:
    for bal in (True, False):
        MAXIMA[mix, bal] = {p: 0.9 if p[:2] != "LS" else 0.93 for p in ALL}
