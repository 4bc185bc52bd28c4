"""Replicas, transfers under way, and what was learnt of the links' bandwidth."""

from __future__ import annotations

from dataclasses import dataclass, replace

from koala.core.model.grid import Link, Replica
from koala.core.model.values import FOREVER, FileName, Instant, JobId, Seconds, SiteName, TransferId

LEARNT_WEIGHT = 0.3  # of the newest observation
LEARNT_BYTES_MIN = 65_536  # smaller copies tell latency, not bandwidth
RATE_WEIGHT = 0.5  # of the newest report, in the rate of a copy under way
CHECKED_BPS = 250e6
"""Bytes a second that a target is taken to check, once it has them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A copy for one job's attempt."""

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
    booked_bps: float = 0.0  # bytes a second of its link that are its own; 0: it shares
    expected_at: Instant = FOREVER  # when it is to be there, by all that is known now
    moved_bytes: int = 0  # as was told last
    moved_s: Seconds = 0.0  # how long that took
    rate_bps: float = 0.0  # of the newest reports; 0: nothing was told yet
    told_at: Instant | None = None  # when that was
    is_done: bool = False  # kept until its attempt ends: till then the target must keep the copy

    @property
    def share(self) -> float:
        """How much of it is there, as was told last."""
        return self.moved_bytes / self.size_bytes if self.size_bytes else float(self.is_done)


class ReplicaCatalogue:
    """The replica catalogue, the transfers under way, and the bandwidth of each link in bytes a
    second. `bookable` is how much of a link may be booked, where somebody said so.
    """

    __slots__ = ("bandwidth", "bookable", "replicas", "transfers")

    def __init__(self) -> None:
        self.replicas: dict[FileName, Replica] = {}
        self.transfers: dict[TransferId, Transfer] = {}
        self.bandwidth: dict[Link, float] = {}
        self.bookable: dict[Link, float] = {}

    def add(self, file: FileName, site: SiteName, *, size_bytes: int, checksum: str) -> None:
        """A site holds a copy. A copy of another size or content makes the newest the only one that
        counts.
        """
        known = self.replicas.get(file)
        same = known is not None and (known.size_bytes, known.checksum) == (size_bytes, checksum)
        sites = (*known.sites, site) if known is not None and same else (site,)
        self.replicas[file] = Replica(
            size_bytes=size_bytes, checksum=checksum, sites=tuple(sorted(dict.fromkeys(sites)))
        )

    def remove(self, file: FileName, site: SiteName) -> None:
        """A site holds no copy any more; a file without any is forgotten."""
        known = self.replicas.get(file)
        if known is None or site not in known.sites:
            return
        sites = tuple(other for other in known.sites if other != site)
        if sites:
            self.replicas[file] = replace(known, sites=sites)
        else:
            del self.replicas[file]

    def advance(
        self, transfer: Transfer, *, size_bytes: int, took_s: Seconds, now: Instant
    ) -> Transfer:
        """Take in how far a copy is, into its own estimate and into that of its link. One that was
        begun anew, or whose target lost its count of time, goes on at the rate that was known.
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
        """Take in that a copy is there, whole; it is kept until its attempt ends."""
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
        """Take an observed copy into the estimate of its link. A booked rate tells nothing about
        what the link could do.
        """
        if size_bytes < LEARNT_BYTES_MIN or took_s <= 0 or transfer.booked_bps:
            return
        link = (transfer.source, transfer.target)
        seen = size_bytes / took_s
        known = self.bandwidth.get(link, seen)
        self.bandwidth[link] = (1 - LEARNT_WEIGHT) * known + LEARNT_WEIGHT * seen

    def learn_slow(self, transfer: Transfer, *, ran_s: Seconds, default_bps: float) -> None:
        """Take in a copy that was cut short after it had run for longer than was estimated: it was
        half done, for all we know. Else a link that is much slower than thought would never be
        learnt, because each copy over it ends with the hold of a job that was claimed too early.
        """
        if transfer.is_done or transfer.booked_bps:
            return
        link = (transfer.source, transfer.target)
        known = self.bandwidth.get(link, default_bps)
        if transfer.size_bytes >= LEARNT_BYTES_MIN and ran_s * known > transfer.size_bytes:
            self.bandwidth[link] = transfer.size_bytes / (2 * ran_s)
