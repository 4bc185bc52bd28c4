"""How fast bytes may go: a token bucket, pure, and the buckets of the links to other sites.

A site's owner bounds what copies take from the network; with the figures of the DAS an emulated
grid behaves as the paper's did (KOALA 3.1). Rates are bytes a second; None is no limit. Time is an
argument, in seconds of any clock that does not run back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CHUNK_BYTES = 256 * 1024
"""Most bytes in one message."""
_CHUNK_BYTES_MIN = 1024
_CHUNKS_PER_S = 8
"""A slow link gets smaller messages, so that it is heard often enough not to look dead."""


class TokenBucket:
    """Lets `bytes_per_s` through on average, after a pause up to `burst_bytes` at once.

    What is asked for is always given, but may have to be waited for: a debt is paid in time. So the
    order of askers is kept, and within any span of t seconds at most `burst_bytes` +
    t x `bytes_per_s` go, and the one request that made the debt.
    """

    __slots__ = ("_at", "_level", "burst_bytes", "bytes_per_s")

    def __init__(self, bytes_per_s: float, *, burst_bytes: float, now: float) -> None:
        assert bytes_per_s > 0, bytes_per_s
        assert burst_bytes >= 0, burst_bytes
        self.bytes_per_s = bytes_per_s
        self.burst_bytes = burst_bytes
        self._level = burst_bytes
        self._at = now

    def take(self, size_bytes: int, now: float) -> float:
        """Takes bytes out; the result is how many seconds to wait before they may go."""
        now = max(now, self._at)
        gained = (now - self._at) * self.bytes_per_s
        self._level = min(self.burst_bytes, self._level + gained) - size_bytes
        self._at = now
        return max(0.0, -self._level / self.bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Bytes a second to and from each other site; `default` for those not named."""

    default: float | None = None
    by_site: Mapping[str, float] = field(default_factory=dict)

    def of(self, site: str) -> float | None:
        """The limit with one site."""
        return self.by_site.get(site, self.default)


class Links:
    """The buckets of all links in one direction; copies with the same site share one."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, site: str, size_bytes: int, now: float) -> float:
        """Counts bytes with a site; the result is how many seconds to wait before they may go."""
        rate = self._limits.of(site)
        if rate is None:
            return 0.0
        if site not in self._buckets:
            burst = chunk_bytes(rate)
            self._buckets[site] = TokenBucket(rate, burst_bytes=burst, now=now)
        return self._buckets[site].take(size_bytes, now)

    def chunk_bytes(self, site: str) -> int:
        """How many bytes to send in one message to a site."""
        return chunk_bytes(self._limits.of(site))


def chunk_bytes(bytes_per_s: float | None) -> int:
    """The size of a message at this rate: an eighth of a second of it, within bounds."""
    if bytes_per_s is None:
        return CHUNK_BYTES
    return int(min(CHUNK_BYTES, max(_CHUNK_BYTES_MIN, bytes_per_s / _CHUNKS_PER_S)))
