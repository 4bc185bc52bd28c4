"""Messages of the OpenSSH client, as its users are told them."""

from __future__ import annotations

import pytest

from koala_agent.transport.ssh_words import loss

REFUSED = "Control socket connect(/state/ssh.sock): Connection refused\n"
CLOSED = "kex_exchange_identification: Connection closed by remote host\n"


@pytest.mark.parametrize("message", [REFUSED, CLOSED, REFUSED + CLOSED])
def test_a_killed_connection_is_lost_however_much_ssh_says(message: str) -> None:
    """It says the second line in most cases, not in all."""
    assert loss("atlas", "atlas", message).text == "ssh to atlas: connection lost"


def test_another_reason_is_told_as_it_is() -> None:
    message = "mux_client_request_session: session request failed\n"
    assert loss("atlas", "atlas", message).text == f"ssh to atlas: {message.strip()}"
