"""Explain why a port cannot be listened on, and the remedy; gRPC only reports that it failed."""

from __future__ import annotations

import errno
import socket
from typing import Any

from koala.errors import ConfigError


def check_free(key: str, address: str, *, or_else: str = "") -> None:
    """Raise the ConfigError of `cannot_listen` if a listener on host:port would fail."""
    if reason := _obstacle(address):
        raise _error(key, address, reason, or_else)


def reserve(key: str, address: str) -> socket.socket:
    """Reserve host:port, with port 0 a free one, for a server that reuses addresses, as gRPC's do:
    the kernel gives it to nobody else while the socket is open. Raises the ConfigError of
    `cannot_listen`."""
    check_free(key, address)
    family, kind, protocol, place = _place(address)
    reserved = socket.socket(family, kind, protocol)
    try:
        # Connections of an earlier server may linger for a minute.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(place)
    except OSError as error:
        reserved.close()
        raise cannot_listen(key, address) from error
    return reserved


def cannot_listen(key: str, address: str) -> ConfigError:
    """Make the error of a server that could not listen on host:port, which `key` names."""
    passed = "another program had the port just now, and has ended; try again"
    return _error(key, address, _obstacle(address) or passed, "")


def _error(key: str, address: str, reason: str, or_else: str) -> ConfigError:
    return ConfigError(f"{key} = {address!r}: cannot listen there: {reason}{or_else}")


def _obstacle(address: str) -> str:
    """Return the reason why an address cannot be listened on now; empty when it can."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, place = _place(address)
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
    except socket.gaierror as error:
        return f"{host}: {error.strerror}"
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return (
                f"port {port} is taken, perhaps by another grid or daemon that runs here already:"
                " end that one, or choose another port (0 takes a free one)"
            )
        return str(error.strerror)
    return ""


def _place(address: str) -> tuple[int, int, int, tuple[Any, ...]]:
    """Return family, type, protocol and address for a socket. Raises socket.gaierror."""
    host, _, port = address.rpartition(":")
    family, kind, protocol, _, place = socket.getaddrinfo(
        host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return family, kind, protocol, place
