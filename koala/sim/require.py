"""Check of a setting's value."""

from __future__ import annotations

from koala.errors import ConfigError


def require(is_right: bool, name: str, value: object, allowed: str) -> None:  # noqa: FBT001 - read as an assertion
    """Raise ConfigError unless the value is right."""
    if not is_right:
        raise ConfigError(f"{name} = {value}: allowed is {allowed}")
