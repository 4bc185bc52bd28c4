"""Paths as people write them in files and variables."""

from __future__ import annotations

from pathlib import Path

from koala.errors import ConfigError


def written_path(text: str, *, key: str) -> Path:
    """The path that `key` names, with `~` and `~USER` replaced. Raises ConfigError when no file can
    have it: for a character that is none, or a user whom this machine does not know."""
    if any(character < " " or character == "\x7f" for character in text):
        raise ConfigError(f"{key} = {text!r}: allowed is a path without control characters")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        whose = text.partition("/")[0]
        raise ConfigError(
            f"{key} = {text!r}: there is no home directory of {whose}; allowed is a path from / or"
            " relative"
        ) from None
