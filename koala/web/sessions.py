"""Sessions of browsers, and the codes of sign-in links.

A session is known by a random id in a cookie. It belongs to one identity and holds the secret that
each action must show again. Sessions live in memory only: a restart signs everybody out.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

SESSIONS_MAX = 500
"""Limit of sessions in all; of one identity a fifth."""
AGE_MAX_S = 12 * 3600.0
IDLE_MAX_S = 2 * 3600.0
ID_MAX = 128


@dataclass(slots=True, kw_only=True)
class Session:
    """One signed-in browser. `identity` is the key of its identity."""

    identity: str
    csrf: str = field(repr=False)
    began_s: float
    seen_s: float
    is_over: bool = False


class Sessions:
    """All sessions; the oldest of an identity makes room for a new one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sessions: dict[str, Session] = {}  # by the hash of the id, oldest first

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, identity: str) -> str:
        """Begin a session and return its id."""
        self._drop_old()
        own = [key for key, one in self._sessions.items() if one.identity == identity]
        for key in own[: max(0, len(own) - SESSIONS_MAX // 5 + 1)]:
            self._remove(key)
        while len(self._sessions) >= SESSIONS_MAX:
            self._remove(next(iter(self._sessions)))
        now, session_id = self._clock(), secrets.token_urlsafe(32)
        self._sessions[_hash(session_id)] = Session(
            identity=identity, csrf=secrets.token_urlsafe(32), began_s=now, seen_s=now
        )
        return session_id

    def find(self, session_id: str | None) -> Session | None:
        """Return the session of a cookie; None if there is none, or it is too old."""
        if not session_id or len(session_id) > ID_MAX:
            return None
        found = self._sessions.get(_hash(session_id))
        if found is None or self._is_old(found):
            return None
        found.seen_s = self._clock()
        return found

    def has(self, session: Session) -> bool:
        """Return True if a session lives; an open page keeps it from being idle."""
        if session.is_over or self._is_old(session):
            return False
        session.seen_s = self._clock()
        return True

    def end(self, session_id: str | None) -> None:
        """End one session, if it exists."""
        self._remove(_hash((session_id or "")[:ID_MAX]))

    def end_all(self, identity: str) -> None:
        """End all sessions of an identity."""
        for key in [key for key, one in self._sessions.items() if one.identity == identity]:
            self._remove(key)

    def identities(self) -> set[str]:
        """Keys of the identities that have sessions."""
        self._drop_old()
        return {one.identity for one in self._sessions.values()}

    def _remove(self, key: str) -> None:
        found = self._sessions.pop(key, None)
        if found is not None:
            found.is_over = True

    def _is_old(self, one: Session) -> bool:
        now = self._clock()
        return now - one.began_s > AGE_MAX_S or now - one.seen_s > IDLE_MAX_S

    def _drop_old(self) -> None:
        for key in [key for key, one in self._sessions.items() if self._is_old(one)]:
            self._remove(key)


class SignInCode:
    """The code of the present sign-in link; a used one is replaced at once."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._code = secrets.token_urlsafe(32)

    def publish(self) -> None:
        """Announce the present code."""
        self._changed(self._code)

    def use(self, code: str) -> bool:
        """Return True for the present code, once."""
        if not secrets.compare_digest(code.encode(), self._code.encode()):
            return False
        self._code = secrets.token_urlsafe(32)
        self.publish()
        return True


def _hash(session_id: str) -> str:
    return sha256(session_id.encode()).hexdigest()
