"""Checks of requests, and the security headers of every response.

A page of another site can make a browser send requests here, or point its own name at this address
(DNS rebinding). So a request is answered only under a known `Host`. What changes something must
come from a page of this server, by `Origin` and `Sec-Fetch-Site`, and shows the session's secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
BODY_MAX = 2_000_000
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Nothing inline, nothing from elsewhere, in no frame."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class RequestGuard:
    """ASGI middleware: refuses what does not come from a page of this server.

    `hosts` are the allowed values of `Host`; a request's `Origin` must have one of them, too.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], *, is_secure: bool) -> None:
        self._app = app
        self._hosts = hosts
        self._is_secure = is_secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection of ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                is_static = "etag" in headers  # the style sheet and scripts
                headers.setdefault("cache-control", "no-cache" if is_static else "no-store")
                if self._is_secure:
                    headers["strict-transport-security"] = "max-age=31536000"
            await send(message)

        if reason := self._objection(scope["method"], Headers(scope=scope)):
            refusal = PlainTextResponse(f"{reason}\n", status_code=403)
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _objection(self, method: str, headers: Mapping[str, str]) -> str:
        """Return why a request is refused; empty if it is not."""
        host = headers.get("host", "")
        if host.lower() not in self._hosts:
            allowed = ", ".join(sorted(self._hosts))
            return f"Host {host[:100]!r} (expected {allowed}: koala web --public-url)"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > BODY_MAX:
            return f"a request of {length[:20]} bytes (expected at most {BODY_MAX})"
        if method in SAFE_METHODS:
            return ""
        if "transfer-encoding" in headers:
            return "a request without its length (expected one with Content-Length)"
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() not in self._hosts:
            return f"Origin {origin[:100]!r} (expected a page of this server)"
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return "a page of another site sent this (expected a page of this server)"
        return ""
