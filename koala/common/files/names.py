"""Validate logical file names, and escape any text into one file name.

A logical name is a relative path with `/` between its parts. It names a file below some folder and
nothing else. `check_name` refuses a name that could mean another place, or that cannot be shown on
one line. Limits are in bytes of UTF-8.
"""

from __future__ import annotations

import hashlib
import unicodedata

from koala.errors import SpecError

NAME_BYTES_MAX = 1024
PART_BYTES_MAX = 255
"""The limit of the usual file systems."""
PARTS_MAX = 32

_UNSHOWN = ("Cc", "Cs", "Zl", "Zp")
"""Categories of Unicode: control characters, lone surrogates, separators of lines, paragraphs."""
_SHOWN_CHARACTERS = 80
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_+,=@")
_ESCAPED_BYTES_MAX = 180
"""Room is left for suffixes such as `.part`."""


def check_name(name: str) -> tuple[str, ...]:
    """Split a logical name into its parts.

    Raises SpecError, which names the name and the rule.
    """
    if problem := _problem(name):
        raise SpecError(
            f"file name {shown(name)}: {problem} (expected a relative path of at most"
            f" {PARTS_MAX} parts and {NAME_BYTES_MAX} bytes without '..' and control characters)"
        )
    return tuple(name.split("/"))


def is_name(name: str) -> bool:
    """Return True if `check_name` accepts the name."""
    return _problem(name) is None


def escape(text: str) -> str:
    """Escape any text into one part of a path: `j1/1/t2` -> `j1%2F1%2Ft2`.

    Different texts get different results. A result is ASCII, never empty, `.` or `..`, and has no
    leading dot. It has at most 180 bytes: a longer one ends in a checksum instead.
    """
    plain = [
        chr(byte) if chr(byte) in _PLAIN or (chr(byte) == "." and index) else f"%{byte:02X}"
        for index, byte in enumerate(text.encode("utf-8", "surrogatepass"))
    ]
    result = "".join(plain) or "%"
    if len(result) <= _ESCAPED_BYTES_MAX:
        return result
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{result[:100]}%~{digest}"


def own_prefix(user: str) -> str:
    """Return the beginning of the names of a user's files: `~ann/`."""
    return f"~{escape(user)}/"


def shown(name: str) -> str:
    """Quote, escape and cut a name for a message."""
    quoted = ascii(name) if any(_is_unshown(c) for c in name) else repr(name)
    return quoted if len(quoted) <= _SHOWN_CHARACTERS else f"{quoted[:_SHOWN_CHARACTERS]}..."


def _problem(name: str) -> str | None:
    if not name:
        return "is empty"
    if len(name) > NAME_BYTES_MAX:
        return f"has {len(name)} characters"
    if any(_is_unshown(character) for character in name):
        return "has a control character"
    if len(name.encode()) > NAME_BYTES_MAX:
        return f"has {len(name.encode())} bytes"
    if name.startswith("/"):
        return "is absolute"
    return _problem_of_parts(name.split("/"))


def _problem_of_parts(parts: list[str]) -> str | None:
    if len(parts) > PARTS_MAX:
        return f"has {len(parts)} parts"
    for part in parts:
        if part in ("", ".", ".."):
            return f"has the part {part!r}"
        if len(part.encode()) > PART_BYTES_MAX:
            return f"has a part of {len(part.encode())} bytes"
    return None


def _is_unshown(character: str) -> bool:
    return unicodedata.category(character) in _UNSHOWN
