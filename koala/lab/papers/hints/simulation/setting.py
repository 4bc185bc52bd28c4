"""Parameters of a run of the hints paper's simulation (Hints 3, 5). A file may describe the grid:


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
from dataclasses import dataclass
from itertools import combinations
from math import inf, isfinite
from pathlib import Path
from typing import Any

import msgspec

from koala.common.runtime.option_values import Bounds, pair
from koala.common.runtime.paths import written_text
from koala.core.model.grid import Demand
from koala.core.model.values import Seconds
from koala.errors import ConfigError
from koala.lab.sim.options import (
    JOBS_MAX,
    Declared,
    Option,
    file_option,
    number,
    policy,
    require,
    require_declared,
    text,
)

MBPS = 125_000.0
"""A megabit a second in bytes a second."""
MB = 1_000_000.0
"""A megabyte in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSetting:
    """A site with one computational resource (its power, the largest slice of it for one job, and
    how many jobs it takes) and one storage resource, and the link between the two (Hints 3.2).
    """

    name: str
    mips: float
    slice_mips: float
    slots: int
    link_mbps: float
    storage_mb: float = inf


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Jobs of one kind: their data in MB and their length in million instructions (table 1)."""

    data_mb: float
    length_mi: float


SITES = (
    SiteSetting(name="site1", mips=3000, slice_mips=1200, slots=4, link_mbps=12),
    SiteSetting(name="site2", mips=4000, slice_mips=1600, slots=4, link_mbps=16),
    SiteSetting(name="site3", mips=5000, slice_mips=2000, slots=4, link_mbps=20),
)
POLICIES = ("NoNetwork", "PreferLocal", "Service")


def _job(option: str, text: str) -> JobClass:
    data_mb, length_mi = pair("MB:MI", "6100:12.5e6")(option, text)
    return JobClass(data_mb=data_mb, length_mi=length_mi)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of the experiment. The jobs are the paper's; the grid, whose table is lost, the
    arrival rate and the rest are ours (docs/simulation.md).
    """

    policy: str = policy("Service", "placement", "Placement policy:")
    io_fraction: float = number(
        0.2, "Share of the jobs that are I/O-bound.", bounds=Bounds(low=0, high=1)
    )
    rate: float = number(
        0.00045, "Jobs a second, at all sites together.", bounds=Bounds(above=0, below=inf)
    )
    sites: tuple[SiteSetting, ...] = SITES
    vpn_mbps: float = 6.0  # of the link between each two sites ...
    vpns: tuple[tuple[str, str, float], ...] = ()  # ... but these
    preferred_mips: float = number(
        1000.0,
        "Preferred rate of a job.",
        name="preferred",
        metavar="MIPS",
        bounds=Bounds(low=0, below=inf),
    )
    accept: float = number(
        0.5, "Part of the preferred rate that hints accept.", bounds=Bounds(low=0, high=1)
    )
    io: JobClass = text(
        "6100:12.5e6",
        _job,
        "Data (MByte) and length (million instructions) of an I/O-bound job.",
        name="io-job",
        metavar="MB:MI",
    )
    cpu: JobClass = text(
        "0.4:25e6", _job, "The same of a CPU-bound job.", name="cpu-job", metavar="MB:MI"
    )
    # 0 blocks: the limit of many blocks; the part that is written counts where there are blocks
    blocks: int = number(
        0,
        "Blocks of a job's instructions and data; 0: a stream.",
        bounds=Bounds(low=0, high=10_000),
    )
    written: float = number(
        0.0, "Part of the data that is written (with --blocks).", bounds=Bounds(low=0, high=1)
    )
    round_s: Seconds = number(
        0.0,
        "Time between scheduling rounds; 0: when something changes.",
        bounds=Bounds(low=0, below=inf),
    )
    jobs: int = number(
        300, "Jobs of one run; all of them count.", bounds=Bounds(low=1, high=JOBS_MAX)
    )

    def __post_init__(self) -> None:
        require_declared(self)
        for name, kind in (("io-job", self.io), ("cpu-job", self.cpu)):
            is_job = isfinite(kind.data_mb) and kind.data_mb >= 0 and 0 < kind.length_mi < inf
            text = "MB:MI, 0 MB or more and more than 0 million instructions"
            require(is_job, name, f"{kind.data_mb:g}:{kind.length_mi:g}", text)
        names = [site.name for site in self.sites]
        require(bool(names), "sites", names, "one or more")
        require(len(names) == len({*names}), "sites", names, "names that differ")
        for site in self.sites:
            _check_site(site)
        require(0 < self.vpn_mbps < inf, "vpn_mbps", self.vpn_mbps, "more than 0 Mb/s")
        for start, end, mbps in self.vpns:
            require(
                {start, end} <= {*names} and start != end,
                "vpn", f"{start}-{end}", f"two of {', '.join(names)}",
            )  # fmt: skip
            require(0 < mbps < inf, f"vpn.{start}.{end}", mbps, "more than 0 Mb/s")

    @property
    def links(self) -> dict[tuple[int, int], float]:
        """Mb/s of each link by the indices of its sites, the smaller first: each site's own, then
        one between each two sites, which carries both directions."""
        index = {site.name: number for number, site in enumerate(self.sites)}
        found = {(n, n): site.link_mbps for n, site in enumerate(self.sites)}
        found |= dict.fromkeys(combinations(range(len(self.sites)), 2), self.vpn_mbps)
        for start, end, mbps in self.vpns:
            found[min(index[start], index[end]), max(index[start], index[end])] = mbps
        return found

    def name_of(self, link: tuple[int, int]) -> str:
        """Name of a link in tables."""
        start, end = (self.sites[index].name for index in link)
        return start if start == end else f"{start}-{end}"

    def kind(self, *, is_io: bool) -> JobClass:
        """Return the class of an I/O-bound job, or of a CPU-bound one."""
        return self.io if is_io else self.cpu

    def demand(self, *, is_io: bool) -> Demand:
        """Return the demand of a job; its hint has the acceptable deviation."""
        return Demand(
            preferred_mips=self.preferred_mips,
            length_mi=self.kind(is_io=is_io).length_mi,
            hint="io" if is_io else "cpu",
            deviation=1.0 - self.accept,
        )


def _check_site(site: SiteSetting) -> None:
    place = f"sites.{site.name}"
    require(0 < site.mips < inf, f"{place}.mips", site.mips, "more than 0")
    is_slice = 0 < site.slice_mips <= site.mips
    text = f"more than 0, at most mips = {site.mips:g}"
    require(is_slice, f"{place}.slice_mips", site.slice_mips, text)
    require(site.slots >= 1, f"{place}.slots", site.slots, "1 or more")
    require(0 < site.link_mbps < inf, f"{place}.link_mbps", site.link_mbps, "more than 0")
    require(site.storage_mb >= 0, f"{place}.storage_mb", site.storage_mb, "0 or more")


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


GRID = {
    "grid": file_option("FILE.toml", "Sites and links (docs/simulation.md).", unset="three sites"),
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
