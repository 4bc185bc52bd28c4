"""Options of jobs for the batch system that no attribute covers (`native`), and what is refused.

What Koala sets itself, or counts, is refused at every site: the name of a job, its size, its time
limit, where its output goes, GPUs. Each dialect names these. Of the rest a site takes all (`*`), or
those that its administrator lists.
"""

from __future__ import annotations

import shlex
from typing import NoReturn

from koala_agent.lrm.local_manager import RequestRefusedError

EVERY = "*"


def option_pairs(
    text: str | None,
    allowed: tuple[str, ...],
    options: tuple[str, ...],
    own: tuple[str, ...] = (),
    *,
    signed: str = "",
) -> list[str]:
    """Split a job's options, if there are any, and check them. Raises RequestRefusedError."""
    words = native_words(text) if text else []
    check_pairs(words, allowed, options, own, signed=signed)
    return words


def check_pairs(
    words: list[str],
    allowed: tuple[str, ...],
    options: tuple[str, ...],
    own: tuple[str, ...],
    *,
    signed: str,
) -> None:
    """Check `options` with one value each; that of `signed` may be negative, and the resources
    `own` are no values of `-l`. Raises RequestRefusedError."""
    for option, value in zip(words[::2], [*words[1::2], ""], strict=False):
        if option not in options:
            refuse(option, f"{', '.join(options)}, each with one value")
        if not value or (value.startswith("-") and option != signed):
            refuse(option, "a value after it")
        resources = [part.partition("=")[0] for part in value.split(",")]
        if option == "-l" and any(name in own for name in resources):
            refuse(f"-l {value}", f"resources but {', '.join(own)}, which Koala sets")
        check_allowed(option, allowed)


def native_words(text: str) -> list[str]:
    """Split a job's options. Raises RequestRefusedError."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words or not text.isprintable():
        refuse(text, "options on one line")
    return words


def check_allowed(name: str, allowed: tuple[str, ...]) -> None:
    """Check that the site allows an option. Raises RequestRefusedError."""
    if EVERY not in allowed and name not in allowed:
        some = ", ".join(allowed) or "none at this site"
        refuse(name, f"{some}: lrm.native of its agent")


def refuse(word: str, allowed: str) -> NoReturn:
    """Refuse a word of a job's options. Raises RequestRefusedError."""
    message = f"native: {word[:80]!r} is refused (expected {allowed})"
    raise RequestRefusedError(message)
