"""Properties that `make test` tries with few examples, and `make test-long` with many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

Test = Callable[[int], None]


def holds_for(
    *strategies: SearchStrategy[Any], few: int, many: int
) -> Callable[[Callable[..., None]], Test]:
    """Make two tests of a property: with few examples, and with many among the long tests."""

    def decorate(check: Callable[..., None]) -> Test:
        @pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.long)])
        def test(examples: int) -> None:
            settings(max_examples=examples)(given(*strategies)(check))()

        test.__name__, test.__doc__, test.__module__ = (
            check.__name__,
            check.__doc__,
            check.__module__,
        )
        return test

    return decorate
