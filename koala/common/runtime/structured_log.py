"""Structured logging of daemons and agents: loggers, and where their lines go.

Only this module imports structlog. Where `rich` is installed, structlog imports it, to draw
tracebacks on terminals with the values of local variables. These may be secrets, and the import is
a tenth of the time in which an agent imports its modules. So `rich` is hidden from structlog.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from koala.common.runtime.standard_streams import log_stream


@contextmanager
def _hidden(package: str) -> Iterator[None]:
    """Let imports of a package fail as if it were not installed, unless it is imported already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment] # how Python says "there is none"
    try:
        yield
    finally:
        del sys.modules[package]


with _hidden("rich"):
    import structlog

bind_to_all = structlog.contextvars.bind_contextvars
"""Add values to all later lines of this context."""
get_logger = structlog.get_logger
RATE_S = 10.0
"""Least pause between two lines of one kind."""


def configure_logging(level: str) -> None:
    """Log to standard error: readable lines on a terminal, JSON otherwise.

    Loggers keep this configuration from their first line on, which makes lines cheaper.
    """
    is_terminal = sys.stderr.isatty()
    tracebacks = structlog.dev.plain_traceback
    form: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=tracebacks)]
        if is_terminal
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_json)]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *form,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.WriteLoggerFactory(log_stream(sys.stderr)),
        cache_logger_on_first_use=True,
    )


_encode = msgspec.json.Encoder(enc_hook=repr).encode


def _json(values: dict[str, Any], **options: Any) -> str:  # noqa: ANN401
    """Write a line as JSON in ASCII. msgspec does so in less time, but does not escape characters,
    such as those that control a terminal."""
    with suppress(UnicodeEncodeError):  # half a character
        line = _encode(values)
        if line.isascii():
            return line.decode()
    return json.dumps(values, **options)


def log_plainly() -> None:
    """Log to standard error with structlog's own form, as the relay does."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


class LogRate:
    """Rate of log lines that unauthenticated peers can cause: counts events of one kind.

    Time is an argument, in seconds of any clock that never runs backwards.
    """

    __slots__ = ("_count", "_due_at")

    def __init__(self) -> None:
        self._count = 0
        self._due_at = float("-inf")

    def count(self, now: float) -> int:
        """Count an event; return how many a line stands for now, 0 while none is due."""
        self._count += 1
        if now < self._due_at:
            return 0
        self._due_at = now + RATE_S
        count, self._count = self._count, 0
        return count
