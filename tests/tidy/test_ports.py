"""A port of `tests/harness/ports.py`: refused while nobody listens, and nobody else's."""

from __future__ import annotations

import socket

import pytest

from tests.harness.ports import free_port

HOST = "127.0.0.1"


def test_a_port_without_a_server_refuses_callers() -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, free_port()))


def test_a_port_is_left_to_the_server_that_reuses_it() -> None:
    """Neither another test nor the kernel, for a caller, can take it before."""
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, port))
    with (
        socket.create_server((HOST, port)),
        socket.create_connection((HOST, port)) as caller,
    ):
        assert caller.getsockname()[1] != port
