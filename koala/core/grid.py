"""The grid as the core knows it: sites, links, replicas; and GridView, the frozen picture that a policy sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from koala.core.values import ClaimId, FileName, Instant, Seconds, SiteName, UserName


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFacts:
    """What an agent registers its site with. `grace_s`: how long a claim may wait in the local queue.

    `starts_after_stop`: the local manager starts a queued claim as soon as enough processors are given back, so that
    preemption makes sense. `address`: where programs of this site are reached from other sites. `serves`: where its file
    server is reached, empty when files go through the relay. `owner`: only this user's jobs see the site.
    """

    processors: int
    grace_s: Seconds = 5.0
    starts_after_stop: bool = False
    address: str = "127.0.0.1"
    serves: str = ""
    owner: UserName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A logical file: its size, checksum (empty: unknown) and the sites that hold a copy, in order of site name."""

    size_bytes: int
    checksum: str = ""
    sites: tuple[SiteName, ...] = ()


@dataclass(slots=True, kw_only=True)
class Site:
    """A site's state in the core."""

    name: SiteName
    facts: SiteFacts
    is_connected: bool = False
    disconnected_at: Instant = 0.0
    is_drained: bool = False
    reported_idle: int = 0
    rtt_s: Seconds = 0.0
    asks: int = 0  # how many claims were ever asked here; the number of the last
    unreported: dict[ClaimId, tuple[int, int]] = field(default_factory=dict)  # ask number, processors
    errors: int = 0  # consecutive
    unusable_until: Instant | None = None  # None: usable
    is_probing: bool = False
    no_preempt_until: Instant = 0.0

    def idle(self) -> int:
        """The last report's idle processors less the claims asked or granted since (design: GridView.idle)."""
        return self.reported_idle - sum(processors for _, processors in self.unreported.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteView:
    """A site as a policy sees it: usable, with `idle` processors of `processors`."""

    name: SiteName
    processors: int
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A component to be placed: `site` fixes it; `size_bytes` of the input file must be there."""

    component: int
    processors: int
    site: SiteName | None = None
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """What a placement policy is asked: all parts, or none. `transfer_s_max`: no longer transfer is allowed."""

    parts: tuple[Part, ...]
    file: FileName | None = None
    transfer_s_max: Seconds = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A part's execution site and file site; without `source` there is nothing to move."""

    component: int
    site: SiteName
    source: SiteName | None = None
    transfer_s: Seconds = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """An answer of a placement policy: every part has its sites."""

    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaceable:
    """An answer of a placement policy: `component` is the first that fits nowhere, and why."""

    component: int
    reason: str


class GridView:
    """The frozen picture that a policy sees: usable sites in order, links, replicas.

    Only the core calls `take`, between two questions of one scan.
    """

    __slots__ = ("_bandwidth", "_bandwidth_default", "_idle", "_replicas", "_sources", "sites")

    def __init__(
        self,
        sites: Iterable[SiteView],
        *,
        replicas: Mapping[FileName, Replica],
        bandwidth: Mapping[tuple[SiteName, SiteName], float],
        bandwidth_default: float,
    ) -> None:
        self.sites: tuple[SiteView, ...] = tuple(sites)
        self._idle = {site.name: site.idle for site in self.sites}
        self._replicas = replicas
        self._bandwidth = bandwidth
        self._bandwidth_default = bandwidth_default
        self._sources: dict[tuple[FileName, SiteName], tuple[SiteName | None, float]] = {}

    def idle(self) -> dict[SiteName, int]:
        """Idle processors of every site, in site order; a copy for the policy to count down."""
        return dict(self._idle)

    @property
    def idle_max(self) -> int:
        """Idle processors of the site with most of them."""
        return max(self._idle.values(), default=0)

    def idle_at(self, site: SiteName) -> int:
        """Idle processors of one site; 0 when it is not usable."""
        return self._idle.get(site, 0)

    def take(self, site: SiteName, processors: int) -> None:
        """Count a component that was placed in this scan, or claimed in this try."""
        self._idle[site] -= processors

    def give(self, site: SiteName, processors: int) -> None:
        """Count processors that a preempted job will give back."""
        if site in self._idle:
            self._idle[site] += processors

    def close(self, site: SiteName) -> None:
        """Show no idle processors here any more (a site that is being probed takes one component)."""
        self._idle[site] = 0

    def transfer(
        self, file: FileName, target: SiteName, size_bytes: int
    ) -> tuple[SiteName | None, Seconds] | None:
        """The nearest replica of `file` for `target` and the estimated transfer time (KOALA 2.6).

        (None, 0) when the target holds a replica; None when no usable site holds one.
        """
        key = (file, target)
        if key not in self._sources:
            self._sources[key] = self._nearest(file, target)
        source, seconds_per_byte = self._sources[key]
        if source is None and seconds_per_byte > 0:
            return None
        return source, size_bytes * seconds_per_byte

    def _nearest(self, file: FileName, target: SiteName) -> tuple[SiteName | None, float]:
        replica = self._replicas.get(file)
        if replica is None:
            return None, float("inf")
        if target in replica.sites:
            return None, 0.0
        best: tuple[SiteName | None, float] = (None, float("inf"))
        for source in replica.sites:
            cost = 1.0 / self._bandwidth.get((source, target), self._bandwidth_default)
            if source in self._idle and cost < best[1]:
                best = (source, cost)
        return best
