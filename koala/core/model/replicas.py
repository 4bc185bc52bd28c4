"""Replicas, transfers under way, and bandwidth estimates of links."""

from __future__ import annotations

from dataclasses import dataclass, replace

from koala.core.model.grid import Link, Replica
from koala.core.model.values import FOREVER, FileName, Instant, JobId, Seconds, SiteName, TransferId

LEARNT_WEIGHT = 0.3  # of the newest observation
LEARNT_BYTES_MIN = 65_536  # smaller copies tell latency, not bandwidth
RATE_WEIGHT = 0.5  # of the newest report, in the rate of a copy under way
CHECKED_BPS = 250e6
"""Assumed rate, in bytes a second, at which a target verifies the checksum of a complete copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Copy of a file for one attempt of a job."""

    id: TransferId
    job: JobId
    attempt: int
    file: FileName
    source: SiteName
    target: SiteName
    offset: int
    size_bytes: int
    checksum: str
    started_at: Instant
    booked_bps: float = 0.0  # bytes a second booked on its link; 0: it shares the link
    expected_at: Instant = FOREVER  # estimated arrival
    moved_bytes: int = 0  # by the last report
    moved_s: Seconds = 0.0  # time that these took
    rate_bps: float = 0.0  # of the newest reports; 0: no report yet
    told_at: Instant | None = None  # instant of the last report
    is_done: bool = False  # kept until its attempt ends: until then the target must keep the copy

    @property
    def share(self) -> float:
        """Share of the bytes at the target, by the last report."""
        return self.moved_bytes / self.size_bytes if self.size_bytes else float(self.is_done)


class ReplicaCatalogue:
    """The replica catalogue, the transfers under way, and the estimated bandwidth of each link in
    bytes a second. `bookable` is the bandwidth that may be booked, for links where one is set;
    `round_trips` are those of programs, where path tests have measured them.
    """

    __slots__ = ("bandwidth", "bookable", "replicas", "round_trips", "transfers")

    def __init__(self) -> None:
        self.replicas: dict[FileName, Replica] = {}
        self.transfers: dict[TransferId, Transfer] = {}
        self.bandwidth: dict[Link, float] = {}
        self.bookable: dict[Link, float] = {}
        self.round_trips: dict[Link, Seconds] = {}

    def add(self, file: FileName, site: SiteName, *, size_bytes: int, checksum: str) -> None:
        """Add a copy of a file at a site. If its size or checksum differs from the known ones, it
        replaces all older copies.
        """
        known = self.replicas.get(file)
        same = known is not None and (known.size_bytes, known.checksum) == (size_bytes, checksum)
        sites = (*known.sites, site) if known is not None and same else (site,)
        self.replicas[file] = Replica(
            size_bytes=size_bytes, checksum=checksum, sites=tuple(sorted(dict.fromkeys(sites)))
        )

    def remove(self, file: FileName, site: SiteName) -> None:
        """Remove the copy at a site; a file without copies leaves the catalogue."""
        known = self.replicas.get(file)
        if known is None or site not in known.sites:
            return
        sites = tuple(holder for holder in known.sites if holder != site)
        if sites:
            self.replicas[file] = replace(known, sites=sites)
        else:
            del self.replicas[file]

    def advance(
        self, transfer: Transfer, *, size_bytes: int, took_s: Seconds, now: Instant
    ) -> Transfer:
        """Update the estimates of a copy and of its link from a progress report. A copy that
        restarted, or whose target lost its timer, keeps the known rate.
        """
        moved_bytes, moved_s = size_bytes - transfer.moved_bytes, took_s - transfer.moved_s
        rate_bps = transfer.rate_bps
        if moved_bytes >= 0 and moved_s > 0:
            self.learn(transfer, size_bytes=moved_bytes, took_s=moved_s)
            seen = moved_bytes / moved_s
            weight = RATE_WEIGHT if rate_bps else 1.0
            rate_bps = (1 - weight) * rate_bps + weight * seen
        expected_at = transfer.expected_at
        if rate_bps:
            left_s = (transfer.size_bytes - size_bytes) / rate_bps
            expected_at = now + left_s + transfer.size_bytes / CHECKED_BPS
        advanced = replace(
            transfer,
            expected_at=expected_at,
            moved_bytes=size_bytes,
            moved_s=took_s,
            rate_bps=rate_bps,
            told_at=now,
        )
        self.transfers[transfer.id] = advanced
        return advanced

    def finish(
        self, transfer: Transfer, *, size_bytes: int, took_s: Seconds, now: Instant
    ) -> Transfer:
        """Mark a copy as complete; it is kept until its attempt ends."""
        self.learn(transfer, size_bytes=size_bytes, took_s=took_s)
        finished = replace(
            transfer,
            is_done=True,
            expected_at=now,
            moved_bytes=size_bytes,
            moved_s=took_s,
            rate_bps=size_bytes / took_s if took_s > 0 else 0.0,
            told_at=now,
        )
        self.transfers[transfer.id] = finished
        return finished

    def learn(self, transfer: Transfer, *, size_bytes: int, took_s: Seconds) -> None:
        """Update the bandwidth estimate of a link from an observed copy. A booked copy is ignored:
        its rate says nothing about the capacity of the link.
        """
        if size_bytes < LEARNT_BYTES_MIN or took_s <= 0 or transfer.booked_bps:
            return
        link = (transfer.source, transfer.target)
        seen = size_bytes / took_s
        known = self.bandwidth.get(link, seen)
        self.bandwidth[link] = (1 - LEARNT_WEIGHT) * known + LEARNT_WEIGHT * seen

    def learn_trip(self, source: SiteName, target: SiteName, trip_s: Seconds) -> None:
        """Update the round trip between two sites, the same both ways."""
        if source == target:
            return
        link = min(source, target), max(source, target)
        known = self.round_trips.get(link, trip_s)
        self.round_trips[link] = (1 - LEARNT_WEIGHT) * known + LEARNT_WEIGHT * trip_s

    def learn_slow(self, transfer: Transfer, *, ran_s: Seconds, default_bps: float) -> None:
        """Lower the estimate of a link after a cancelled copy that ran longer than estimated.

        The copy is assumed to be half done. Without this, the estimate of a very slow link would
        never improve: each copy over it ends with the hold of a job that was claimed too early.
        """
        if transfer.is_done or transfer.booked_bps:
            return
        link = (transfer.source, transfer.target)
        known = self.bandwidth.get(link, default_bps)
        if transfer.size_bytes >= LEARNT_BYTES_MIN and ran_s * known > transfer.size_bytes:
            self.bandwidth[link] = transfer.size_bytes / (2 * ran_s)
