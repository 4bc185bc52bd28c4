"""Tokens of transfers and uploads, which prove to the relay that the daemon ordered them. Pure."""

from __future__ import annotations

import hashlib
import hmac
from enum import StrEnum


class Purpose(StrEnum):
    """Permission that a token grants to its bearer: a call for one transfer, `PUT` for the outputs
    and logs of one claim, or the two ends of connections to a port (`CLAIM/NAME`): `LISTEN` for its
    owner, `DIAL` for the others of the attempt."""

    GET = "get"
    PUT = "put"
    LISTEN = "listen"
    DIAL = "dial"


def token(secret: bytes, purpose: Purpose, identity: str) -> str:
    """Make a token, which proves that the daemon ordered a transfer or upload.

    It is an HMAC-SHA256, so the relay can check it by the secret alone, without a list of transfers
    and claims.
    """
    message = f"{purpose}\0{identity}".encode("utf-8", "surrogatepass")
    return hmac.new(secret, message, hashlib.sha256).hexdigest()


def is_token(shown_token: str, secret: bytes, purpose: Purpose, identity: str) -> bool:
    """Check a token in constant time."""
    expected = token(secret, purpose, identity)
    return hmac.compare_digest(expected.encode(), shown_token.encode("utf-8", "surrogatepass"))
