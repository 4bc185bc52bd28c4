"""GPUs of an emulated site: each is held by at most one claim."""

from __future__ import annotations

from collections import deque

VARIABLE = "CUDA_VISIBLE_DEVICES"


class GpuPool:
    """GPUs with the numbers 0 to `total` - 1, and the claims that wait for some, in order.

    A claim gets its GPUs before it queues for processors, so that it never has part of what it
    needs.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._held: dict[str, tuple[int, ...]] = {}
        self._waiting: deque[tuple[str, int]] = deque()

    @property
    def idle(self) -> int:
        """Number of GPUs that no claim holds, and none that waits will get."""
        return max(0, len(self._free()) - sum(count for _, count in self._waiting))

    def ask(self, claim: str, count: int) -> None:
        """Let a claim wait for so many GPUs."""
        self._waiting.append((claim, count))

    def occupy(self, claim: str, numbers: tuple[int, ...]) -> None:
        """Note that a claim of an earlier life holds these GPUs."""
        self._held[claim] = numbers

    def allocate(self) -> dict[str, tuple[int, ...]]:
        """Allocate GPUs to the claims that waited longest; return the GPUs of each."""
        given: dict[str, tuple[int, ...]] = {}
        while self._waiting and self._waiting[0][1] <= len(free := self._free()):
            claim, count = self._waiting.popleft()
            given[claim] = self._held[claim] = tuple(free[:count])
        return given

    def release(self, claim: str) -> bool:
        """Take back a claim's GPUs; return True if it still waited for them."""
        self._held.pop(claim, None)
        others = [entry for entry in self._waiting if entry[0] != claim]
        was_waiting = len(others) < len(self._waiting)
        self._waiting = deque(others)
        return was_waiting

    def _free(self) -> list[int]:
        held = {number for numbers in self._held.values() for number in numbers}
        return [number for number in range(self.total) if number not in held]
