"""Grid files of the hints simulation: sites with their power, storage and links, as TOML.

vpn_mbps = 6.0                    # between each two sites, both directions together ...
[sites.delft]
mips = 3000.0                     # processing power
slice_mips = 1200.0               # most of it for one job; all of it when not given
slots = 4                         # most jobs at a time
link_mbps = 12.0                  # between its processors and its storage
storage_mb = 1e6                  # no limit when not given
[vpn.delft]
leiden = 10.0                     # ... but these
"""

from __future__ import annotations

import tomllib
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from koala.common.runtime.paths import written_text
from koala.errors import ConfigError
from koala.lab.papers.hints.simulation.setting import SiteSetting


class _Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    mips: float
    slice_mips: float | None = None
    slots: int
    link_mbps: float
    storage_mb: float = inf


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    sites: dict[str, _Site]
    vpn_mbps: float = 6.0
    vpn: dict[str, dict[str, float]] = {}


Grid = tuple[tuple[SiteSetting, ...], float, tuple[tuple[str, str, float], ...]]
"""Sites, Mb/s between each two of them, and exceptions."""


def _given(site: _Site) -> dict[str, Any]:
    return {
        name: value for name, value in msgspec.structs.asdict(site).items() if value is not None
    }


def read_grid(path: Path) -> Grid:
    """Read the grid of a file. Raises ConfigError."""
    try:
        tree = tomllib.loads(written_text(path))
        file = msgspec.convert(tree, _File)
    except (ValueError, RecursionError) as error:  # of TOML, or of its numbers and depth
        raise ConfigError(f"{path}: not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None
    sites = tuple(
        SiteSetting(name=name, **({"slice_mips": site.mips} | _given(site)))
        for name, site in file.sites.items()
    )
    vpns = tuple(
        (start, end, mbps) for start, ends in file.vpn.items() for end, mbps in ends.items()
    )
    return sites, file.vpn_mbps, vpns
