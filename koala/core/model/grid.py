"""Sites, links and replicas of the grid, and GridView, the view of them that policies see."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from koala.common.protocol.messages import NO_RESOURCES, SiteResources
from koala.core.model.job_spec import Split
from koala.core.model.values import (
    ClaimId,
    FileName,
    Inputs,
    Instant,
    JobId,
    Seconds,
    SiteName,
    UserName,
)

MIPS_DEFAULT = 1000.0
"""Speed of a processor whose speed is not configured."""

Link: TypeAlias = tuple[SiteName, SiteName]
"""From a site, to a site. A site's link to itself leads from its storage to its processors
(Hints 3.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFacts:
    """Facts with which an agent registers its site.

    - `grace_s`: time that a claim may wait in the local queue.
    - `starts_after_stop`: the local manager starts a queued claim as soon as enough processors are
      free, so that preemption makes sense.
    - `address`: address of programs of this site, as seen from other sites.
    - `serves`: address of its file server; empty when files go through the relay.
    - `owner`: only this user's jobs see the site.
    - `users`: if not empty, only these users' jobs see it; in alphabetical order.
    - `honours`: RSL names of the component attributes that the local manager acts on.
    - `may_kill_local`: the administrator allows killing local jobs for a job that must start now.
    - `mips`: speed of one processor.
    - `slots`: limit of concurrent claims, None for no limit (Hints 3.2).
    - `resources`: what it has beside processors, by its newest report.
    - `gate`: name of the gate by which a waiting claim cannot start, and keeps its place in the
      local queue; empty where there is none.
    - `books`: how it books processors for a claim with a known start; empty where it does not.
    - `hold_max_s`: longest hold before the barrier that its owner allows, None for no limit.
    - `tickets_max`, `held_share_max`: limits of its owner on the claims that wait in its queue, and
      on the share of its processors that such claims hold before the barrier; None for no limit.
    - `forwards`: it carries connections to ports of programs through the grid.
    """

    processors: int
    grace_s: Seconds = 5.0
    starts_after_stop: bool = False
    address: str = "127.0.0.1"
    serves: str = ""
    owner: UserName | None = None
    honours: tuple[str, ...] = ()
    may_kill_local: bool = False
    mips: float = MIPS_DEFAULT
    slots: int | None = None
    users: tuple[UserName, ...] = ()
    resources: SiteResources = NO_RESOURCES
    gate: str = ""
    books: str = ""
    hold_max_s: Seconds | None = None
    tickets_max: int | None = None
    held_share_max: float | None = None
    forwards: bool = False

    def admits(self, user: UserName | None) -> bool:
        """Return True if this user's jobs may see the site; None is an unknown user."""
        return admits(user, owner=self.owner, users=self.users)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """Size and checksum (empty: unknown) of a logical file, and the sites that hold a copy, in
    order of site name.
    """

    size_bytes: int
    checksum: str = ""
    sites: tuple[SiteName, ...] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class Site:
    """State of a site in the core."""

    name: SiteName
    facts: SiteFacts
    is_connected: bool = False
    disconnected_at: Instant = 0.0
    silence: str = ""  # as in SiteReported
    renewed_at: Instant = 0.0  # registered or resumed: earlier refusals do not count any more
    is_drained: bool = False
    drained_at: Instant = 0.0  # 0: unknown
    reported_idle: int = 0
    reported_local: int = 0  # processors of local jobs that run
    reported_queued: int = 0  # jobs of others that wait for processors
    outlook: tuple[tuple[int, Seconds, Seconds], ...] = ()  # as in SiteReported
    reported_asleep: int = 0  # idle ones that are powered down
    wake_s: Seconds = 0.0  # until those are up
    holes: tuple[tuple[int, Instant], ...] = ()  # more idle ones, for claims that end by then
    reservations: tuple[tuple[str, int], ...] | None = None  # as in SiteReported
    rtt_s: Seconds = 0.0
    asks: int = 0  # claims asked here so far; also the number of the last one
    unreported: dict[ClaimId, tuple[int, int]] = field(
        default_factory=dict
    )  # ask number, processors
    reported_gpus: int = 0  # idle ones
    has_told_resources: bool = False  # a report of it has said what it has beside processors
    unreported_gpus: dict[ClaimId, int] = field(default_factory=dict)  # of claims in `unreported`
    errors: int = 0  # consecutive
    launch_failures: int = 0  # consecutive rests because batch jobs could not begin
    erring: dict[JobId, int] = field(default_factory=dict)  # errors of each live job among them
    unusable_until: Instant | None = None  # None: usable
    unusable_since: Instant = 0.0  # 0: unknown
    is_probing: bool = False
    no_preempt_until: Instant = 0.0
    window: float = 8.0  # limit of unanswered claims (queries.sites_with_full_window)
    narrowed_at_ask: int = 0  # the last ask number when a refusal decreased the window
    start_ratios: tuple[float, ...] = ()  # of claims' waits to what was stated, the newest last
    past_waits: tuple[tuple[int, Seconds], ...] = ()  # of open tickets, with their processors
    unreached: dict[SiteName, Instant] = field(
        default_factory=dict
    )  # by its nodes, when tried last

    def idle(self) -> int:
        """Return the idle processors of the last report minus the claims asked or granted since."""
        if not self.unreported:
            return self.reported_idle
        return self.reported_idle - sum([processors for _, processors in self.unreported.values()])

    def wake_s_for(self, processors: int) -> Seconds:
        """Return the time until a claim of this size has its machines powered up."""
        return self.wake_s if processors > self.idle() - self.reported_asleep else 0.0

    def expected_wait_s(self, processors: int, run_s: Seconds) -> Seconds | None:
        """Return the time until a claim of this size would start if it were asked for now; None if
        the site does not tell."""
        if self.idle() >= processors:
            return 0.0
        larger = [
            start_s
            for size, most_s, start_s in self.outlook
            if size >= processors and most_s >= run_s
        ]
        return min(larger, default=max((start_s for *_, start_s in self.outlook), default=None))

    def idle_gpus(self) -> int:
        """Return the idle GPUs of the last report minus those of the claims asked or granted
        since."""
        if not self.unreported_gpus:
            return self.reported_gpus
        return self.reported_gpus - sum(self.unreported_gpus.values())


class SiteView(NamedTuple):
    """View of a usable site for policies, with `idle` processors of `processors`.

    `mips`: rate that a part gets here now: live, the speed of the processors; simulated, the
    largest slice that is left. `slots`: number of further parts it takes, None for no limit.
    `gpus`: idle ones. `unit`: it gives a multiple of so many processors. `holes`: so many are idle
    for parts that end by then.

    A named tuple, because every claiming try makes one for each of perhaps a thousand sites, and a
    frozen dataclass takes twice as long to make.
    """

    name: SiteName
    processors: int
    idle: int
    owner: UserName | None = None
    is_probing: bool = False
    mips: float = MIPS_DEFAULT
    slots: int | None = None
    users: tuple[UserName, ...] = ()
    gpus: int = 0
    unit: int = 1
    holes: tuple[tuple[int, Instant], ...] = ()

    def admits(self, user: UserName | None) -> bool:
        """Return True if this user's jobs may see the site; None is an unknown user."""
        return admits(user, owner=self.owner, users=self.users)


class Part(NamedTuple):
    """A component to be placed: `site` fixes it; `size_bytes` of input files must be there. `file`:
    the name of its input file, or the names of several.

    It is a named tuple, which is cheap: a scan makes one for each component of a job that it tries.
    """

    component: int
    processors: int
    site: SiteName | None = None
    size_bytes: int = 0
    file: Inputs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Demand of a job on processors and links (Hints 3.3, 3.4): `length_mi` million instructions
    for each of its processors (0: unknown), at `preferred_mips` or more. `hint`: the critical
    resource (`cpu`, `io`, or none); `deviation`: the part of the rate that may be missing.
    """

    preferred_mips: float
    length_mi: float = 0.0
    hint: str = ""
    deviation: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """Question to a placement policy: place all parts, or none.

    `transfer_s_max`: longest allowed transfer. `beside`: sites of other components of the same job
    that are placed already. `home`: the site at whose queue the job was submitted.
    """

    parts: tuple[Part, ...]
    user: UserName = UserName("")
    transfer_s_max: Seconds = float("inf")
    beside: tuple[SiteName, ...] = ()
    demand: Demand | None = None
    home: SiteName | None = None
    split: Split | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Execution site and file site of a part; without `source` no file moves.

    `processors`: what a component of a flexible job gets (0: as asked). `mips`: promised rate (0:
    none). `booked_bps`: bytes a second reserved for it on the link from its file to it.
    """

    component: int
    site: SiteName
    source: SiteName | None = None
    transfer_s: Seconds = 0.0
    mips: float = 0.0
    booked_bps: float = 0.0
    processors: int = 0

    @property
    def link(self) -> Link:
        """The link over which the part reads its file."""
        return (self.site if self.source is None else self.source, self.site)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Answer of a placement policy: sites for every part."""

    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaceable:
    """Answer of a placement policy: the first component that fits nowhere, and the reason."""

    component: int
    reason: str


class GridView:
    """View of the grid for policies: usable sites in order, links, replicas.

    Only the core calls `take`, `give_back` and `book`; a claiming policy may call them on the view
    that was made for its question.
    """

    def __init__(
        self,
        sites: Iterable[SiteView],
        *,
        replicas: Mapping[FileName, Replica],
        bandwidth: Mapping[Link, float],
        bandwidth_default: float,
        free: Mapping[Link, float] | None = None,
        round_trips: Mapping[Link, Seconds] | None = None,
        known: Mapping[SiteName, Site] | None = None,
    ) -> None:
        self.sites: tuple[SiteView, ...] = tuple(sites)
        self._idle: dict[SiteName, int] = {}
        self._slots: dict[SiteName, int] = {}
        self._gpus: dict[SiteName, int] = {}
        self._guarded: dict[SiteName, SiteView] = {}
        self._probing: dict[SiteName, bool] = {}
        self._units: dict[SiteName, int] = {}
        self._holes: dict[SiteName, tuple[tuple[int, Instant], ...]] = {}
        self._reserved: dict[SiteName, dict[str, int]] = {}
        for site in self.sites:  # in one loop, because each claiming try makes a view
            name = site.name
            self._idle[name] = site.idle
            if site.slots is not None:
                self._slots[name] = site.slots
            if site.gpus:
                self._gpus[name] = site.gpus
            if site.owner is not None or site.users:
                self._guarded[name] = site
            if site.is_probing:
                self._probing[name] = True
            if site.unit > 1:
                self._units[name] = site.unit
            if site.holes:
                self._holes[name] = site.holes
        self._free = dict(free or {})
        self._idle_max: int | None = None  # worked out when asked
        self._idle_sum: int | None = None
        self._places: dict[int, int] = {}
        self._refused: set[Hashable] = set()
        self._excluded_sources: frozenset[SiteName] = frozenset()
        self._replicas = replicas
        self._bandwidth = bandwidth
        self._bandwidth_default = bandwidth_default
        self._round_trips = round_trips or {}
        self._known = known or {}  # for their round trips, which few policies ask for
        self._routes: dict[
            tuple[Inputs, UserName | None], tuple[tuple[float, SiteName | None, SiteName], ...]
        ] = {}

    def idle(self, user: UserName | None = None) -> dict[SiteName, int]:
        """Return the idle processors of the sites that `user` may use, in site order; a copy to
        modify."""
        if not self._guarded:
            return dict(self._idle)
        shut = {name for name, site in self._guarded.items() if not site.admits(user)}
        return {site: n for site, n in self._idle.items() if site not in shut}

    @property
    def idle_max(self) -> int:
        """Idle processors of the site with most of them."""
        if self._idle_max is None:
            self._idle_max = max(self._idle.values(), default=0)
        return self._idle_max

    def may_take(self, size: int, *, of: int) -> bool:
        """Return False if a part of this size fits nowhere, or `of` processors are more than all
        sites together have idle."""
        if self._idle_sum is None:
            self._idle_sum = sum(self._idle.values())
        return of <= self._idle_sum and size <= self.idle_max

    def places(self, size: int) -> int:
        """Return the number of parts of this size that fit at once, wherever they may run."""
        if size not in self._places:
            self._places[size] = sum([n // size for n in self._idle.values() if n >= size])
        return self._places[size]

    @property
    def sites_with_holes(self) -> tuple[SiteName, ...]:
        """The sites where more processors are idle for parts that end soon."""
        return tuple(self._holes)

    def until(self, ends: Mapping[SiteName, Instant]) -> GridView:
        """Return the view for parts that end by these times, at the sites with holes."""
        more = {}
        for site, end in ends.items():
            most = max([count for count, until in self._holes[site] if until >= end], default=0)
            if most > self._idle[site]:
                more[site] = most
        return self._with(more) if more else self

    def within(self, reserved: Mapping[SiteName, dict[str, int]], *, is_mixed: bool) -> GridView:
        """Return the view for a job that names reservations, with what is idle in these; if it
        `is_mixed`, what others may have is idle for some of its components, too."""
        view = self._with(
            {
                site: sum(rooms.values()) + (self._idle[site] if is_mixed else 0)
                for site, rooms in reserved.items()
            }
        )
        vars(view).update(_reserved={site: dict(rooms) for site, rooms in reserved.items()})
        return view

    def _with(self, idle: Mapping[SiteName, int]) -> GridView:
        view = self.copy()
        vars(view).update(_idle={**self._idle, **idle}, _idle_max=None, _idle_sum=None)
        return view

    def room_at(self, site: SiteName, reservation: str | None) -> int:
        """Return the processors of a site that are idle for a component in this reservation, or in
        none."""
        idle, rooms = self.idle_at(site), self._reserved.get(site, {})
        if reservation in rooms:
            return min(idle, rooms[reservation])
        return idle - sum(rooms.values())

    def idle_at(self, site: SiteName) -> int:
        """Return the idle processors of one site; 0 when it is not usable."""
        return self._idle.get(site, 0)

    def gpus_at(self, site: SiteName) -> int:
        """Return the idle GPUs of one site."""
        return self._gpus.get(site, 0)

    def has_room(self, site: SiteName, *, processors: int, gpus: int = 0) -> bool:
        """Return True if a part of this size could start at a site now."""
        return self._idle.get(site, 0) >= processors and self._gpus.get(site, 0) >= gpus

    def slots(self) -> dict[SiteName, int]:
        """Return the number of further parts that each site with a limit takes; a copy to
        modify."""
        return dict(self._slots)

    def free(self) -> dict[Link, float]:
        """Return the bytes a second that can still be booked on each bookable link; a copy."""
        return dict(self._free)

    def holders(self, file: Inputs | None) -> tuple[SiteName, ...]:
        """Return the sites with a replica of a file, or of all of several files, usable ones or
        not."""
        if isinstance(file, tuple):
            first, *others = [self.holders(name) for name in file]
            return tuple([site for site in first if all(site in sites for sites in others)])
        replica = None if file is None else self._replicas.get(file)
        return () if replica is None else replica.sites

    def is_source(self, site: SiteName) -> bool:
        """Return True if other sites may copy files from this site."""
        return site in self._idle and site not in self._excluded_sources

    def bandwidth(self, link: Link) -> float:
        """Return the estimate of a link between two sites, in bytes a second."""
        return self._bandwidth.get(link, self._bandwidth_default)

    def round_trip_s(self, link: Link) -> Seconds:
        """Return the round trip between two sites: as programs saw it, else by way of the
        daemon."""
        source, target = min(link), max(link)
        known = self._round_trips.get((source, target))
        if known is not None:
            return known
        ends = [self._known[site].rtt_s for site in (source, target) if site in self._known]
        return sum(ends)

    def copy(self) -> GridView:
        """Copy the view for a tentative placement."""
        view = copy(self)
        own = {"_idle": dict(self._idle), "_slots": self.slots(), "_free": self.free()}
        own |= {"_gpus": dict(self._gpus), "_holes": dict(self._holes)}
        own["_reserved"] = {site: dict(rooms) for site, rooms in self._reserved.items()}
        vars(view).update(own, _refused=set(), _places={})
        return view

    def detached(self) -> GridView:
        """Copy the view for code of other packages, which cannot change the original by it."""
        view = self.copy()
        vars(view).update(
            _guarded=dict(self._guarded),
            _probing=dict(self._probing),
            _replicas=MappingProxyType(self._replicas),
            _bandwidth=MappingProxyType(self._bandwidth),
            _round_trips=MappingProxyType(self._round_trips),
            _known={name: replace(site) for name, site in self._known.items()},
            _routes={},
        )
        return view

    def has_refused(self, shape: Hashable) -> bool:
        """Return True if a policy found no place for this shape of request and nothing changed
        since: it would find none for an equal request."""
        return shape in self._refused

    def refuse(self, shape: Hashable) -> None:
        """Remember that a policy found no place for a request of this shape."""
        self._refused.add(shape)

    def _change(self) -> None:
        """Invalidate what was computed from the counts."""
        self._idle_max = self._idle_sum = None
        self._places.clear()
        self._refused.clear()

    def take(
        self, site: SiteName, processors: int, gpus: int = 0, *, reservation: str | None = None
    ) -> None:
        """Count a component placed in this scan, or claimed in this try."""
        unit = self._units.get(site, 1)
        taken = -(-processors // unit) * unit
        if reservation in (rooms := self._reserved.get(site, {})):
            rooms[reservation] -= taken
        self._idle[site] -= taken
        if site in self._holes:
            self._idle[site] = max(0, self._idle[site])  # it may have gone into a hole
            self._holes[site] = tuple([(n - taken, until) for n, until in self._holes[site]])
        if gpus:
            self._gpus[site] = self._gpus.get(site, 0) - gpus
        if site in self._slots:
            self._slots[site] -= 1
            if self._slots[site] <= 0:
                self._idle[site] = 0
        self._change()

    def book(self, assignment: Assignment) -> None:
        """Count the bandwidth of a component placed in this scan, or moved in this try."""
        if assignment.link in self._free:
            self._free[assignment.link] -= assignment.booked_bps
            self._change()

    def close(self, sites: Iterable[SiteName]) -> None:
        """Close sites for the rest of this scan."""
        for site in sites:
            self._holes.pop(site, None)
            if self._idle.get(site, 0) > 0:
                self._idle[site] = 0
                self._change()

    def limit(self, site: SiteName, *, processors: int, slots: int) -> None:
        """Limit what the job that is being placed may have of a site."""
        self._idle[site] = min(self._idle[site], processors if slots > 0 else 0)
        self._slots[site] = min(self._slots.get(site, slots), slots)
        self._change()

    def exclude_sources(self, sites: Iterable[SiteName]) -> None:
        """Exclude sites as sources of copies. Parts placed there still read their files."""
        self._excluded_sources |= frozenset(sites)
        self._routes = {}
        self._change()

    def close_probed(self, sites: Iterable[SiteName]) -> None:
        """Close those sites that a job placed there probes: no other job may join it."""
        for site in sites:
            if site in self._probing:
                self._holes.pop(site, None)
                self._idle[site] = 0
                self._change()

    def give_back(self, site: SiteName, processors: int, gpus: int = 0) -> None:
        """Count processors and GPUs that a preempted job will give back."""
        if site in self._idle:
            self._idle[site] += processors
            self._gpus[site] = self._gpus.get(site, 0) + gpus
            self._change()

    def routes(
        self, file: Inputs, user: UserName | None = None
    ) -> tuple[tuple[float, SiteName | None, SiteName], ...]:
        """Return the routes of a file as (seconds a byte, file site, execution site), fastest
        first, among the sites that `user` may use; ties in site order (KOALA 2.6).

        The file site is None where the execution site holds a replica itself. Sites that no usable
        replica can reach are left out. Several files take one after the other: their seconds a byte
        are the mean by size, and the file site is that of the file that takes longest.
        """
        key = (file, user if self._guarded else None)
        if key not in self._routes:
            sites = self.idle(user)
            costs = [(*self._nearest(file, site, sites), site) for site in sites]
            reachable = [entry for entry in costs if entry[0] < float("inf")]
            self._routes[key] = tuple(sorted(reachable, key=lambda entry: entry[0]))
        return self._routes[key]

    def source(
        self, file: FileName, target: SiteName, user: UserName | None = None
    ) -> SiteName | None:
        """Return the site from which a file reaches `target` fastest; None if it is there
        already."""
        return self._nearest(file, target, self.idle(user))[1]

    def _nearest_all(
        self, files: tuple[FileName, ...], target: SiteName, sites: Mapping[SiteName, int]
    ) -> tuple[float, SiteName | None]:
        """Return the route of several files, as `routes` describes it."""
        sizes = [max(1, self._replicas[name].size_bytes) if name in self._replicas else 1
                 for name in files]  # fmt: skip
        ways = [self._nearest(name, target, sites) for name in files]
        times = [cost * size for (cost, _), size in zip(ways, sizes, strict=True)]
        slowest = max(range(len(files)), key=times.__getitem__)
        return sum(times) / sum(sizes), ways[slowest][1]

    def _nearest(
        self, file: Inputs, target: SiteName, sites: Mapping[SiteName, int]
    ) -> tuple[float, SiteName | None]:
        if isinstance(file, tuple):
            return self._nearest_all(file, target, sites)
        replica = self._replicas.get(file)
        if replica is None:
            return float("inf"), None
        if target in replica.sites:
            return 0.0, None
        best: tuple[float, SiteName | None] = (float("inf"), None)
        for source in replica.sites:
            cost = 1.0 / self._bandwidth.get((source, target), self._bandwidth_default)
            if source in sites and source not in self._excluded_sources and cost < best[0]:
                best = (cost, source)
        return best


def admits(user: UserName | None, *, owner: UserName | None, users: tuple[UserName, ...]) -> bool:
    """Return True if a site with this owner and these users is visible to this user's jobs."""
    if owner not in (None, user):
        return False
    if not users:
        return True
    place = bisect_left(users, user or "")
    return place < len(users) and users[place] == user
