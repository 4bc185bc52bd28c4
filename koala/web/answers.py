"""ASGI middleware around all handlers: sends answers in parts, and turns bugs into words.

A request's state has `held`, a stack of what is held until the answer was passed on.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from koala.common.runtime import clock
from koala.common.runtime.structured_log import LogRate, get_logger

PART_BYTES = 65_536
"""uvicorn waits for a slow reader between two parts, so no more than this is ever buffered."""
HELD = "held"

log = get_logger()


class Answers:
    """The middleware. An answer has ended only when all but its last part was read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._failures: defaultdict[str, LogRate] = defaultdict(LogRate)  # by place in the code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        has_begun = False

        async def send_in_parts(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            body = message.get("body", b"")
            if not body:
                await send(message)
                return
            for start in range(0, len(body), PART_BYTES):
                part = body[start : start + PART_BYTES]
                await send({"type": message["type"], "body": part, "more_body": True})
            if not message.get("more_body", False):
                await send({"type": message["type"], "body": b"", "more_body": False})

        with ExitStack() as held:
            scope.setdefault("state", {})[HELD] = held
            try:
                await self._app(scope, receive, send_in_parts)
            except ClientDisconnect:  # before its request was whole
                return
            except Exception as error:
                if has_begun:
                    raise  # uvicorn cuts the connection: the end is missing
                at = self._report(scope["path"], error)
                words = (
                    f"This page failed, and this is a mistake in Koala: {type(error).__name__} at"
                    f" {at}. The log of `koala web` has a line about it.\n"
                )
                await PlainTextResponse(words, status_code=500)(scope, receive, send)

    def _report(self, path: str, error: Exception) -> str:
        """Log an error in one line, and return its place in the code."""
        frame = traceback.extract_tb(error.__traceback__)[-1]
        at = f"{Path(frame.filename).name}:{frame.lineno}"
        if count := self._failures[at].count(clock.now()):
            log.error("page.failed", path=path[:200], error=repr(error)[:500], at=at, times=count)
        return at
