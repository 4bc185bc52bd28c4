"""Challenge-response handshake: starter and agent prove that they know the claim's secret.

    starter  {"kind": "prove", "claim": C, "challenge": X}
    agent    {"kind": "challenge", "challenge": Y, "proof": of X}      no proof: C is not known
    starter  {"kind": "hello", ..., "proof": of Y}                     instead of "secret"

With `"encrypts": "always"` in the first line all after the second one is TLS, and the agent's proof
is of its certificate, too: nobody stands between the two. With `"unless within this machine"` the
agent may answer `"encrypts": false` if both ends have one address, and nothing is.

A helper on another node and its starter do the same with a secret of their own: there the helper
is the one that asks, and its name takes the claim's place.
The secret itself is never sent. An eavesdropper learns nothing that authenticates it, and a process
that took the port of a dead agent is detected before anything of it is believed. Without TLS the
messages themselves are neither encrypted nor signed.
"""

from __future__ import annotations

import os

AGENT, STARTER = "agent", "starter"


def helper_name(machine: int) -> str:
    """Return the name of the helper on this machine of the component."""
    return f"machine {machine}"


def challenge() -> str:
    """Return a fresh random challenge."""
    return os.urandom(16).hex()


def proof(secret: str, who: str, *parts: str) -> str:
    """Compute the proof of knowing the secret: a keyed BLAKE2.

    Its module is loaded in a tenth of the time that `hashlib` takes, which would delay the
    check-in.
    """
    try:
        from _blake2 import blake2b  # noqa: PLC0415 - see above
    except ImportError:
        from hashlib import blake2b  # noqa: PLC0415

    text = "\0".join((who, *parts)).encode("utf-8", "surrogatepass")
    return str(blake2b(text, key=secret.encode()[:64], digest_size=32).hexdigest())


def is_proof(shown: object, secret: str, who: str, *parts: str) -> bool:
    """Verify a proof in constant time."""
    expected = proof(secret, who, *parts).encode()
    given = shown.encode("utf-8", "surrogatepass") if isinstance(shown, str) else b""
    if len(given) != len(expected):
        return False
    wrong = 0
    for one, other in zip(given, expected):
        wrong |= one ^ other
    return wrong == 0


class Prover:
    """Starter's side of the handshake on one connection."""

    def __init__(self, claim: str, secret: str) -> None:
        self.is_trusted = False
        """True once the other end has proved to be the agent."""
        self._claim = claim
        self._secret = secret
        self._own = challenge()
        self._theirs = ""

    def question(self) -> dict[str, object]:
        """Return the first message of the handshake."""
        return {"kind": "prove", "claim": self._claim, "challenge": self._own}

    def handle_challenge(self, message: dict[str, object], *certificate: str) -> bool:
        """Handle the agent's challenge, after TLS with its certificate; False for another
        message."""
        if message.get("kind") != "challenge":
            return False
        self._theirs = str(message.get("challenge"))
        shown = message.get("proof")
        proven = (*certificate, self._claim, self._own)
        self.is_trusted = is_proof(shown, self._secret, AGENT, *proven)
        return True

    def add_proof(self, message: dict[str, object]) -> dict[str, object]:
        """Replace the secret of a message by a proof; a peer that is not trusted gets neither."""
        proven = {key: value for key, value in message.items() if key != "secret"}
        if self.is_trusted:
            nonce = str(message.get("nonce"))
            proven["proof"] = proof(self._secret, STARTER, self._claim, nonce, self._theirs)
        return proven
