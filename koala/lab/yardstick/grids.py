"""The five grids: shapes of machines of public logs, and synthetic ones. Never change one: results
of different versions would no longer be comparable; add another."""

from __future__ import annotations

from koala.lab.grids import Grid, LocalUsers, Site
from koala.lab.grids import grid as made

SHORT = LocalUsers(load=0.3, run_mean_s=600.0, sizes=(1, 8))
LONG = LocalUsers(load=0.4, run_mean_s=3600.0, sizes=(1, 32), q=0.95)


def _grid(sizes: dict[str, int], users: LocalUsers) -> Grid:
    return made({name: Site(name, size, users=users) for name, size in sizes.items()})


GRIDS: dict[str, Grid] = {
    "das2": _grid({"vu": 144, "amsterdam": 64, "delft": 64, "leiden": 64, "utrecht": 64}, SHORT),
    "archive": _grid({"ctc": 338, "sdsc": 128, "kth": 100}, LONG),
    "equal": _grid({"left": 128, "right": 128}, SHORT),
    "uneven": _grid({"s512": 512, "s128": 128, "s64": 64, "s32": 32}, LONG),
    "many": _grid({f"c{number:02}": 32 for number in range(1, 13)}, SHORT),
}
"""Grids by name."""
