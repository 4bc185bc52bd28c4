"""Options of the simulation of jobs that compute and read data; a file may describe the grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from koala.common.runtime.option_values import Bounds
from koala.lab.papers.hints.simulation.grid_file import read_grid
from koala.lab.papers.hints.simulation.setting import Setting
from koala.lab.sim.options import Declared, Option

GRID = {
    "grid": Option(
        default=None,
        kind="file",
        metavar="FILE.toml",
        help="Sites and links (docs/simulation.md).",
        unset="three sites",
    ),
    "vpn_mbps": Option(
        default=None,
        kind="number",
        name="vpn",
        help="Bandwidth between each two sites.",
        metavar="MBIT/S",
        bounds=Bounds(above=0),
        unset="6, or as in the grid file",
    ),
}


def _setting(*, grid: Path | None, vpn_mbps: float | None, **values: Any) -> Setting:  # noqa: ANN401
    if grid is not None:
        sites, of_file_mbps, vpns = read_grid(grid)
        values |= {"sites": sites, "vpn_mbps": of_file_mbps, "vpns": vpns}
    if vpn_mbps is not None:
        values |= {"vpn_mbps": vpn_mbps, "vpns": ()}
    return Setting(**values)


SIMULATION = Declared.of(Setting, make=_setting, more=GRID)
