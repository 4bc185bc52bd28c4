"""A short run over real sockets; `python -m tests.fuzz --only services` has longer ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.services import play


@pytest.mark.live
async def test_every_call_answers_hostile_messages_in_words_of_ours(tmp_path: Path) -> None:
    assert await play(tmp_path, cases=400, seed=0) == []
