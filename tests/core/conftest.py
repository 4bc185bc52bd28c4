"""Fixtures of the core's tests: scripts that are replayed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from koala.core.policy_api import Policies
from tests.harness.script import Script


class Begin(Protocol):
    """Begins a script with these parameters."""

    def __call__(self, policies: Policies | None = None, **parameters: Any) -> Script: ...


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Scripts with parameters of their own; each is replayed when the test is over."""
    scripts: list[Script] = []

    def new(policies: Policies | None = None, **parameters: Any) -> Script:
        scripts.append(Script(policies, **parameters))
        return scripts[-1]

    yield new
    for script in scripts:
        script.close()


@pytest.fixture
def script(begin: Begin) -> Script:
    """A script with the defaults of `Script`."""
    return begin()
