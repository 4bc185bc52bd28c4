"""Paths and settings files as people write them in configuration and variables."""

from __future__ import annotations

from pathlib import Path

from koala.errors import ConfigError

SETTINGS_MAX = 1_000_000
"""Most characters of a settings file. A device or a pipe may have no end."""


def written_text(path: Path, *, characters_max: int = SETTINGS_MAX) -> str:
    """Read a text file that a person has written.

    Raises ConfigError when it cannot be read, is not UTF-8, or is too long.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(characters_max + 1)
    except (
        OSError,
        ValueError,
    ) as error:  # ValueError: an impossible path, or text that is not UTF-8
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read: {reason}") from error
    if len(text) > characters_max:
        raise ConfigError(f"{path} is too long (expected at most {characters_max} characters)")
    return text


def written_path(text: str, *, key: str) -> Path:
    """Parse the path that `key` names, with `~` and `~USER` expanded.

    Raises ConfigError for a control character, or a user unknown to this machine.
    """
    if any(character < " " or character == "\x7f" for character in text):
        raise ConfigError(f"{key} = {text!r} (expected a path without control characters)")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        whose = text.partition("/")[0]
        raise ConfigError(
            f"{key} = {text!r}: there is no home directory of {whose} (expected a path that begins"
            " with /, or a relative one)"
        ) from None
