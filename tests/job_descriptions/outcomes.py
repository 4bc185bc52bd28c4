"""An answer or the SpecError in its place, as a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from koala.errors import SpecError

T = TypeVar("T")


def outcome(action: Callable[[], T]) -> T | SpecError:
    """Return the action's result; any error but a SpecError fails the test."""
    try:
        return action()
    except SpecError as error:
        return error
