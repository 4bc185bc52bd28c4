"""Tests of the minimiser: the reduced seed still fails in the same way."""

from __future__ import annotations

import pytest

from tests.swarm import minimise
from tests.swarm.drawing.seed import draw
from tests.swarm.mutants import MUTANTS


def test_all_that_is_not_needed_is_left_out() -> None:
    tried: list[tuple[int, ...]] = []

    def is_enough(kept: object) -> bool:
        tried.append(tuple(kept))  # type: ignore[arg-type]
        return {3, 71} <= set(tried[-1])

    assert list(minimise.reduced(range(100), is_enough)) == [3, 71]
    assert len(tried) < 60


def test_nothing_is_needed_of_what_always_fails() -> None:
    assert list(minimise.reduced(range(10), lambda _kept: True)) == []


@pytest.mark.slow
@pytest.mark.long
def test_what_is_left_of_a_seed_breaks_as_the_whole_did(capsys: pytest.CaptureFixture[str]) -> None:
    with MUTANTS["release_before_the_last_armed"]():
        for seed in range(40):
            whole = draw(seed)
            broken = minimise.try_out(whole)
            if broken is not None:
                break
        else:
            pytest.fail("the mutant survives")
        assert minimise.main([str(seed)]) == 1
        command = capsys.readouterr().out.strip().rsplit("\n", 1)[1]
        words = command.partition("tests.swarm.minimise ")[2].split()
        assert minimise.main(words) == 1
        again = capsys.readouterr().out
    assert broken.how.split(":")[0] in again
    assert len(words[2].split(",")) < len(whole.specs) or len(whole.specs) == 1
