"""Paths as people write them in files and variables, and the files of settings that they name."""

from __future__ import annotations

from pathlib import Path

from koala.errors import ConfigError

SETTINGS_MAX = 1_000_000
"""So many characters a file of settings may have. A device or a pipe may have no end."""


def written_text(path: Path, *, characters_max: int = SETTINGS_MAX) -> str:
    """What is in a file that a person has written. Raises ConfigError when it cannot be read, is no
    UTF-8, or is longer than that."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(characters_max + 1)
    except (OSError, ValueError) as error:  # of a path that none can be, or what is no UTF-8
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read: {reason}") from error
    if len(text) > characters_max:
        raise ConfigError(f"{path}: is too long: allowed are {characters_max} characters")
    return text


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
