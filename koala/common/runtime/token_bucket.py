"""Token buckets: rate limits with bursts. Pure; the unit of a token is the caller's."""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key")


class TokenBucket:
    """Bucket that gains `per_s` tokens a second, up to `burst`.

    The level may fall below 0: a request is never divided, and its debt is paid in time. So within
    any t seconds at most `burst` + t x `per_s` tokens go, and the one request that made the debt.
    Time is an argument, in seconds of any clock; an earlier instant than before adds nothing.
    """

    __slots__ = ("_at", "_level", "burst", "per_s")

    def __init__(self, per_s: float, *, burst: float, now: float) -> None:
        assert per_s > 0, per_s
        assert burst >= 0, burst
        self.per_s = per_s
        self.burst = burst
        self._level = burst
        self._at = now

    def reserve(self, count: float, now: float) -> float:
        """Consume tokens, in debt if need be; return the seconds until the debt is paid.

        Callers that wait so long keep their order.
        """
        self._refill(now)
        self._level -= count
        return max(0.0, -self._level / self.per_s)

    def wait_s(self, now: float) -> float:
        """Return the seconds until there is a whole token; 0: now."""
        self._refill(now)
        return max(0.0, (1.0 - self._level) / self.per_s)

    def consume(self, count: float) -> None:
        """Consume tokens, in debt if need be."""
        self._level -= count

    def refund(self, count: float) -> None:
        """Return consumed tokens."""
        self._level += count

    def remaining(self, now: float) -> float:
        """Return the level as a share of the burst: 1 when full, below 0 in debt."""
        self._refill(now)
        return self._level / self.burst

    def _refill(self, now: float) -> None:
        now = max(now, self._at)
        self._level = min(self.burst, self._level + self.per_s * (now - self._at))
        self._at = now


class RateLimits(Generic[Key]):
    """Token buckets by key, all of one rate. Full buckets are dropped: do not keep references."""

    def __init__(self, per_s: float, *, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._buckets: dict[Key, TokenBucket] = {}

    def of(self, key: Key, now: float) -> TokenBucket:
        """Return the bucket of a key."""
        bucket = self._buckets.get(key)
        if bucket is None:
            self._buckets = {k: old for k, old in self._buckets.items() if old.remaining(now) < 1.0}
            bucket = self._buckets[key] = TokenBucket(self._per_s, burst=self._burst, now=now)
        return bucket
