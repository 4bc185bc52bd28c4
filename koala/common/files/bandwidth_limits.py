"""Rate limits of file copies: one token bucket for each link to another site.

A site's owner bounds the bandwidth that copies use. With the figures of the DAS an emulated grid
behaves as the paper's did (KOALA 3.1). Rates are bytes a second; None means no limit. Time is an
argument, in seconds of any monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from koala.common.runtime.token_bucket import TokenBucket

CHUNK_BYTES = 256 * 1024
"""Most bytes in one message."""
_CHUNK_BYTES_MIN = 1024
_CHUNKS_PER_S = 8
"""A slow link gets smaller messages: frequent arrivals show that it is alive."""
_REST_MIN = 0.01
"""Share of a limit that remains for copies without a booking when all of it is booked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthLimits:
    """Rate limits for each other site, in bytes a second; `default` for sites not named."""

    default: float | None = None
    by_site: Mapping[str, float] = field(default_factory=dict)

    def of(self, site: str) -> float | None:
        """Return the limit for one site."""
        return self.by_site.get(site, self.default)


class LinkLimits:
    """Token buckets of all links in one direction; copies with the same site share one.

    A booked copy has a bucket of its own. Its rate is taken from the share of the copies without a
    booking. The limit of the site's owner holds for all copies together.
    """

    def __init__(self, limits: BandwidthLimits) -> None:
        self._limits = limits
        self._whole: dict[str, TokenBucket] = {}
        self._shared: dict[str, TokenBucket] = {}
        self._booked: dict[str, dict[str, TokenBucket]] = {}  # by site and transfer

    @contextmanager
    def booking(self, transfer: str, site: str, bytes_per_s: float, now: float) -> Iterator[None]:
        """Give a copy a rate of its own for the duration of the block; 0 books nothing."""
        if not bytes_per_s:
            yield
            return
        copies = self._booked.setdefault(site, {})
        bucket = TokenBucket(bytes_per_s, burst=chunk_bytes(bytes_per_s), now=now)
        copies[transfer] = bucket
        self._set_rest(site)
        try:
            yield
        finally:
            if copies.get(transfer) is bucket:
                del copies[transfer]
                self._set_rest(site)

    def reserve(self, site: str, size_bytes: int, now: float, *, transfer: str = "") -> float:
        """Reserve bytes of the limits with a site; return the seconds to wait before sending."""
        own = self._booked.get(site, {}).get(transfer)
        rate = self._limits.of(site)
        waits = [] if own is None else [own.reserve(size_bytes, now)]
        if rate is not None:
            whole = self._bucket(self._whole, site, rate, now)
            waits.append(whole.reserve(size_bytes, now))
            if own is None and self._booked.get(site):
                shared = self._bucket(self._shared, site, self._rest(site, rate), now)
                waits.append(shared.reserve(size_bytes, now))
        return max(waits, default=0.0)

    def chunk_bytes(self, site: str, booked_bps: float = 0.0) -> int:
        """Return the size of one message to a site."""
        rates = [rate for rate in (self._limits.of(site), booked_bps) if rate]
        return chunk_bytes(min(rates, default=None))

    def _rest(self, site: str, rate: float) -> float:
        """Return the rate left for copies without a booking; never 0, or they would look dead."""
        booked = sum(bucket.per_s for bucket in self._booked.get(site, {}).values())
        return max(rate - booked, _REST_MIN * rate)

    def _set_rest(self, site: str) -> None:
        rate = self._limits.of(site)
        if rate is not None and site in self._shared:
            self._shared[site].per_s = self._rest(site, rate)

    @staticmethod
    def _bucket(buckets: dict[str, TokenBucket], site: str, rate: float, now: float) -> TokenBucket:
        if site not in buckets:
            buckets[site] = TokenBucket(rate, burst=chunk_bytes(rate), now=now)
        return buckets[site]


def chunk_bytes(bytes_per_s: float | None) -> int:
    """Return the size of a message at this rate: an eighth of a second of it, within bounds."""
    if bytes_per_s is None:
        return CHUNK_BYTES
    return int(min(CHUNK_BYTES, max(_CHUNK_BYTES_MIN, bytes_per_s / _CHUNKS_PER_S)))
