"""Authentication of starters and file syncs: proofs of a claim's secret, in both directions.

Our starters do not send the secret itself (`koala_agent.starter.challenge_response`).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

from koala.common.protocol.names import ClaimId
from koala_agent.starter.challenge_response import AGENT, STARTER, challenge, is_proof, proof
from koala_agent.starter_link.codec import NONCE_BYTES_MAX, Message, text


class Authentication:
    """Challenge and proofs of one connection. `secret` returns that of a known claim."""

    def __init__(self, secret: Callable[[ClaimId], str | None]) -> None:
        self._secret = secret
        self._challenge = ""

    @property
    def is_begun(self) -> bool:
        """True when this agent has sent its challenge."""
        return bool(self._challenge)

    def begin(self, message: Message, *certificate: str) -> Message:
        """Answer a challenge with the agent's proof, which is of its certificate if it will use
        one, and a challenge of its own. Raises ValueError.
        """
        claim = ClaimId(text(message, "claim", most=256))
        theirs = text(message, "challenge", most=64)
        self._challenge = challenge()
        answer: Message = {"kind": "challenge", "challenge": self._challenge}
        known = self._secret(claim)
        if known is not None:
            answer["proof"] = proof(known, AGENT, *certificate, claim, theirs)
        return answer

    def is_valid(self, message: Message, secret: str) -> bool:
        """Check the proof, or the shown secret, in a hello. Raises ValueError."""
        if "secret" in message:
            shown = text(message, "secret", most=256)
            return hmac.compare_digest(secret.encode(), shown.encode())
        fields = (text(message, "claim", most=256), text(message, "nonce", most=NONCE_BYTES_MAX))
        asked = self._challenge
        return self.is_begun and is_proof(message.get("proof"), secret, STARTER, *fields, asked)
