"""Replicas, transfers under way, and what was learnt of the links' bandwidth."""

from __future__ import annotations

from dataclasses import dataclass, replace

from koala.core.grid import Link, Replica
from koala.core.values import FileName, Instant, JobId, Seconds, SiteName, TransferId

LEARNT_WEIGHT = 0.3  # of the newest observation
LEARNT_BYTES_MIN = 65_536  # smaller copies tell latency, not bandwidth


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
    is_done: bool = False  # kept until its attempt ends: till then the target must keep the copy


class Files:
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
