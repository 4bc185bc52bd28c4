"""The fixture of the claim table's tests."""

from __future__ import annotations

import pytest

from tests.agent.claims.table_script import TableScript


@pytest.fixture
def script() -> TableScript:
    return TableScript()
