"""GPUs of an emulated site: each is held by at most one claim."""

from __future__ import annotations

VARIABLE = "CUDA_VISIBLE_DEVICES"


class GpuPool:
    """GPUs with the numbers 0 to `total` - 1, and the claims that want some, in order.

    A claim gets its GPUs before it may start, so that it never has part of what it needs. A gated
    one has none and keeps its place.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._wanted: dict[str, int] = {}
        self._held: dict[str, tuple[int, ...]] = {}
        self._gated: set[str] = set()

    @property
    def idle(self) -> int:
        """Number of GPUs that no claim holds, and none that waits will get."""
        return max(0, len(self._free()) - sum(self._waiting().values()))

    def ask(self, claim: str, count: int) -> None:
        """Let a claim wait for so many GPUs."""
        self._wanted[claim] = count

    def occupy(self, claim: str, numbers: tuple[int, ...]) -> None:
        """Note that a claim from before the restart holds these GPUs."""
        self._wanted[claim] = len(numbers)
        self._held[claim] = numbers

    def gate(self, claim: str) -> None:
        """Let a claim have no GPUs until it is opened."""
        self._gated.add(claim)
        self._held.pop(claim, None)

    def open(self, claim: str) -> None:
        """Let a gated claim wait for its GPUs again."""
        self._gated.discard(claim)

    def allocate(self) -> dict[str, tuple[int, ...]]:
        """Allocate GPUs to the claims that waited longest; return the GPUs of each."""
        allocated: dict[str, tuple[int, ...]] = {}
        for claim, count in self._waiting().items():
            free = self._free()
            if count > len(free):
                break
            allocated[claim] = self._held[claim] = tuple(free[:count])
        return allocated

    def release(self, claim: str) -> None:
        """Take back what a claim holds or waits for."""
        self._wanted.pop(claim, None)
        self._held.pop(claim, None)
        self._gated.discard(claim)

    def _waiting(self) -> dict[str, int]:
        others = self._held.keys() | self._gated
        return {claim: count for claim, count in self._wanted.items() if claim not in others}

    def _free(self) -> list[int]:
        held = {number for numbers in self._held.values() for number in numbers}
        return [number for number in range(self.total) if number not in held]
