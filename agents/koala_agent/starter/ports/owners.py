"""Owners of TCP sockets of this machine: whether a process of the claim has one.

All users of a machine share its loopback device. So whoever dials a forwarded port, and whatever
listens where a connection is to arrive, must be of the claim: the kernel's tables name each socket
by its inode, and each process's descriptors. Programs of one account can still act for one another:
that is the kernel's limit, as with the files of the account.
"""

from __future__ import annotations

import os

from koala_agent.starter.compat import PART_BYTES
from koala_agent.starter.light import socket
from koala_agent.starter.process_tree import family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Address: TypeAlias = "tuple[str, int]"

LISTENING = b"0A"
TABLES = (("/proc/net/tcp", socket.AF_INET), ("/proc/net/tcp6", socket.AF_INET6))
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
MAPPED = "::ffff:"


def is_of_claim(caller: Address, listener: Address, starter: int, mark: str) -> bool:
    """Return True if the caller of one of our listeners is a process of the claim."""
    for own, other, _state, inode in _rows(caller[1]):
        if own == caller and other == listener:
            return has_one_of({inode}, starter, mark)
    return False


def find_listener(port: int, starter: int, mark: str) -> str:
    """Return the address at which a process of the claim listens at this port; empty if none
    does."""
    for (address, _port), _other, state, inode in _rows(port):
        if state == LISTENING and has_one_of({inode}, starter, mark):
            return ANYWHERE.get(address, address)
    return ""


def has_one_of(inodes: set[str], starter: int, mark: str) -> bool:
    """Return True if a process of the claim has one of these sockets."""
    names = {f"socket:[{inode}]" for inode in inodes}
    for pid in family(starter, mark):
        folder = f"/proc/{pid}/fd"
        try:
            for name in os.listdir(folder):
                if _target(f"{folder}/{name}") in names:
                    return True
        except OSError:
            continue  # it has ended, or is another account's
    return False


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:  # just closed
        return ""


def _rows(port: int) -> Iterator[tuple[Address, Address, bytes, str]]:
    """Yield this machine's TCP sockets at a port: both addresses, state, inode. There may be
    thousands of others: those that listen come first, and nobody reads on after the right one."""
    number = b":%04X" % port
    for path, kind in TABLES:
        for line in _lines(path):
            if number in line:
                own, other, state = line.split(None, 4)[1:4]
                if own.endswith(number):
                    inode = line.split(None, 10)[9].decode()
                    yield _address(own, kind), _address(other, kind), state, inode


def _lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a table; none of a kernel without it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        line = b""
        for part in iter(lambda: os.read(descriptor, PART_BYTES), b""):
            *lines, line = (line + part).split(b"\n")
            yield from lines
    finally:
        os.close(descriptor)


def _address(text: bytes, kind: int) -> Address:
    """Parse an address of the kernel's tables: words in the order of this machine's bytes."""
    words, port = text.split(b":")
    packed = bytes.fromhex(words.decode())
    in_order = b"".join(packed[i : i + 4][::-1] for i in range(0, len(packed), 4))
    host = socket.inet_ntop(kind, in_order)
    return (host[len(MAPPED) :] if host.startswith(MAPPED) else host), int(port, 16)
