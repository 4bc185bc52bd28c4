"""The profile of free processors is a step function, searched from its beginning."""

from __future__ import annotations

import math
from random import Random

import pytest

from koala.queue_model.profile import Profile

TOTAL = 64


class Plain:
    """The same as a list of what was added."""

    def __init__(self) -> None:
        self.added: list[tuple[int, float, float]] = []

    def free(self, instant: float) -> int:
        return TOTAL + sum(n for n, begin, end in self.added if begin <= instant < end)

    def earliest(self, processors: int, duration_s: float, begin: float, before: float) -> float:
        edges = {edge for _, *both in self.added for edge in both if begin < edge < math.inf}
        for start in sorted({begin} | edges):
            if start >= before:
                break
            until = min(start + duration_s, before)
            within = [start] + [edge for edge in edges if start < edge < until]
            if all(self.free(instant) >= processors for instant in within):
                return start
        return before


@pytest.mark.parametrize("seed", range(3))
def test_a_profile_is_a_step_function_whatever_is_added(seed: int) -> None:
    """Hundreds of reservations come and go."""
    random = Random(seed)
    profile, plain = Profile(TOTAL), Plain()
    now = 0.0
    profile.forget(now)
    for step in range(500):
        if random.random() < 0.1:
            now += random.randint(1, 5)
            profile.forget(now)
            plain.added = [(n, max(b, now), e) for n, b, e in plain.added if e > now]
        if plain.added and random.random() < (0.35 if step < 350 else 0.8):
            processors, begin, end = plain.added.pop(random.randrange(len(plain.added)))
            profile.add(-processors, begin, end)
        else:
            processors = random.randint(1, TOTAL)
            duration_s = random.choice([1, 7, 40, 300, math.inf if step % 50 == 0 else 2])
            begin = profile.earliest(processors, duration_s, begin=now)
            assert begin == plain.earliest(processors, duration_s, now, math.inf)
            if begin < math.inf:
                profile.add(-processors, begin, begin + duration_s)
                plain.added.append((-processors, begin, begin + duration_s))
        asked = (random.randint(1, TOTAL), random.choice([1, 20, 500]))
        before = now + random.randint(0, 800)
        assert profile.earliest(*asked, begin=now, before=before) == plain.earliest(
            *asked, now, before
        )
        end = now + random.choice([1, 50, math.inf])
        edges = [now, *(b for _, b, _ in plain.added), *(e for _, _, e in plain.added)]
        inside = [edge for edge in edges if now <= edge < end]
        assert profile.least(begin=now, end=end) == min(map(plain.free, inside))
        at = now + random.randint(1, 300)
        edges = [edge for edge in edges if now <= edge < at]
        assert profile.most_before(at) == max(map(plain.free, edges))


def test_what_was_given_back_leaves_no_steps() -> None:
    """Else a long replay would grow without end."""
    profile = Profile(TOTAL)
    profile.forget(0)
    spans = [(1 + n % 3, 7.0 * n, 7.0 * n + 100) for n in range(400)]
    for processors, begin, end in spans:
        profile.add(-processors, begin, end)
    for processors, begin, end in reversed(spans):
        profile.add(processors, begin, end)
    assert profile._at == [0]
