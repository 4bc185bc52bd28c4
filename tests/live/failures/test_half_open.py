"""Each way in which a link can be half-open, once; the command `half_open` does it often."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.half_open import MANNERS, half_open

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.long]


def test_what_a_daemon_cannot_reach_ends_by_its_lease_and_runs_again_afterwards(
    tmp_path: Path,
) -> None:
    half_open(tmp_path, len(MANNERS)).check()
