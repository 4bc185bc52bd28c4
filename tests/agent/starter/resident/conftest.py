"""Fixtures of the tests of resident parents."""

from __future__ import annotations

import pytest

from koala_agent.lrm.emulated import resident_starters


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent that a busy machine keeps waiting is not taken for one that hangs."""
    monkeypatch.setattr(resident_starters, "ANSWER_S", 120.0)
