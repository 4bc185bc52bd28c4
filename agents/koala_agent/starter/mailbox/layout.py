"""Names, limits and seals of the messages in a mailbox, for both ends."""

from __future__ import annotations

from koala_agent.starter.challenge_response import challenge, is_proof, proof

POLL_S = 0.2
"""Pause between two looks for messages, at both ends."""
MESSAGE_MAX_BYTES = 512 * 1024
PART_MAX_BYTES = MESSAGE_MAX_BYTES // 2
"""Largest content of a message that is written."""
UP, DOWN = "up", "down"
UNSEALED = "-"
"""Seal of an agent that does not know the claim, and so has no key."""


def session_of(claim: str) -> str:
    """Return a fresh name for a session of this claim."""
    return f"{claim.replace('/', '-')}.{challenge()[:16]}"


def seal(secret: str, way: str, session: str, number: int, lines: bytes) -> bytes:
    """Return the content of a message: its seal, and these JSON lines."""
    fields = (session, str(number), lines.decode("latin-1"))
    mark = proof(secret, way, *fields) if secret else UNSEALED
    return mark.encode() + b"\n" + lines


def unseal(secret: str, way: str, session: str, number: int, content: bytes) -> bytes:
    """Return the JSON lines of a message. Raises ValueError for a wrong seal.

    Without a secret no seal is checked.
    """
    mark, _, lines = content.partition(b"\n")
    fields = (session, str(number), lines.decode("latin-1"))
    if secret and not is_proof(mark.decode("ascii", "replace"), secret, way, *fields):
        raise ValueError(f"message {number} of {session} has a wrong seal")
    return lines


def next_part(unsent: bytes) -> bytes:
    """Return the content of the next message: whole lines, or the beginning of a line that is too
    long for one message. Empty while no line is whole.
    """
    end = unsent.rfind(b"\n", 0, PART_MAX_BYTES) + 1
    if end == 0 and len(unsent) > PART_MAX_BYTES:
        end = PART_MAX_BYTES
    return unsent[:end]
