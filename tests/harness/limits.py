"""The time limits of the tests of a folder: what hangs fails alone, and says where."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import pytest


def limit(items: Iterable[pytest.Item], folder: Path, limit_s: float) -> None:
    """Give each asynchronous test of this folder its limit, in the task that runs it; a module may
    have a `TEST_S` of its own."""
    for item in items:
        is_ours = item.path.is_relative_to(folder)
        if is_ours and isinstance(item, pytest.Function) and iscoroutinefunction(item.obj):
            item.obj = _limited(item.obj, getattr(item.module, "TEST_S", limit_s))


def _limited(
    test: Callable[..., Coroutine[Any, Any, None]], limit_s: float
) -> Callable[..., Coroutine[Any, Any, None]]:
    @wraps(test)
    async def run(*arguments: Any, **named: Any) -> None:
        async with asyncio.timeout(limit_s):
            await test(*arguments, **named)

    return run
