"""Owners of TCP sockets of this machine: whether a process of the claim has one.

All users of a machine share its loopback device. So whoever dials a forwarded port, and whatever
listens where a connection is to arrive, must be of the claim: the kernel names a socket's inode
(sock_diag(7): its tables in /proc take 20 ms where many connections have just ended), and each
process's descriptors. Programs of one account can still act for one another: that is the kernel's
limit, as with the files of the account.
"""

from __future__ import annotations

import os
import struct

from koala_agent.starter.compat import log
from koala_agent.starter.light import socket
from koala_agent.starter.process_tree import family, offspring, started_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    Address: TypeAlias = "tuple[str, int]"

SOCK_DIAG, REQUEST, DUMP = 20, 0x1, 0x300
LISTENING, ANY_STATE = 1 << 10, 0xFFFFFFFF
NO_COOKIE = b"\xff" * 8
ANSWER_BYTES = 64 * 1024
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
MAPPED = "::ffff:"


class Owners:
    """Finder of what processes of one claim have."""

    def __init__(self, starter: int, mark: str) -> None:
        self._starter = starter
        self._mark = mark
        self._known: dict[int, int] = {}
        """Processes of the claim, and when each started: one whose number is reused is none."""

    def is_of_claim(self, caller: Address, listener: Address) -> bool:
        """Return True if the caller of one of our listeners, by IPv4, is a process of the claim."""
        return bool(self._host_of(_sockets(socket.AF_INET, caller, listener)))

    def find_listener(self, port: int) -> str:
        """Return the address at which a process of the claim listens at this port; empty if none
        does."""
        kinds = socket.AF_INET, socket.AF_INET6
        host = self._host_of(row for kind in kinds for row in _sockets(kind) if row[1] == port)
        return ANYWHERE.get(host, host.replace(MAPPED, ""))

    def _host_of(self, sockets: Iterable[tuple[str, int, int]]) -> str:
        """Return the host of a socket that a process of the claim has; empty if it has none. Known
        processes come first, then descendants: to find all of them reads those of the machine, and
        a caller may be about to end."""
        try:
            hosts = {f"socket:[{inode}]": host for host, _port, inode in sockets}
        except OSError as error:
            log(f"ports: the kernel does not tell whose a socket is: {error.strerror}")
            return ""
        host = self._search(hosts)
        for find in (self._descendants, self._family):
            if hosts and not host:
                self._known = {pid: started_at(pid) for pid in find()}
                host = self._search(hosts)
        return host

    def _descendants(self) -> list[int]:
        return [pid for pid in offspring(self._starter) if pid != os.getpid()]

    def _family(self) -> list[int]:
        return family(self._starter, self._mark)

    def _search(self, hosts: dict[str, str]) -> str:
        same = [pid for pid, start in self._known.items() if started_at(pid) == start]
        targets = (target for pid in same for target in _targets(pid))
        return next((hosts[target] for target in targets if target in hosts), "")


def _targets(pid: int) -> Iterator[str]:
    """Yield what the descriptors of a process are."""
    folder = f"/proc/{pid}/fd"
    try:
        for number in os.listdir(folder):
            yield _target(f"{folder}/{number}")
    except OSError:
        return  # it has ended, or is another account's


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:  # just closed
        return ""


def _sockets(
    kind: int, own: Address | None = None, other: Address | None = None
) -> Iterator[tuple[str, int, int]]:
    """Yield host, port and inode of the TCP socket between two addresses, or of all that listen.
    Raises OSError."""
    if own is None or other is None:
        flags, states, ends = REQUEST | DUMP, LISTENING, bytes(36)
    else:
        flags, states = REQUEST, ANY_STATE
        hosts = [socket.inet_pton(kind, host).ljust(16, b"\0") for host, _port in (own, other)]
        ends = struct.pack(">HH", own[1], other[1]) + b"".join(hosts)
    question = struct.pack("=BBxxI", kind, socket.IPPROTO_TCP, states) + ends + bytes(4) + NO_COOKIE
    head = struct.pack("=IHHII", 16 + len(question), SOCK_DIAG, flags, 0, 0)
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4)  # NETLINK_SOCK_DIAG
    try:
        kernel.send(head + question)
        answer, is_more = b"", True
        while is_more:
            answer = answer or kernel.recv(ANSWER_BYTES)
            size, type_ = struct.unpack_from("=IH", answer)
            if type_ != SOCK_DIAG:  # the end, or there is none
                return
            (port,) = struct.unpack_from(">H", answer, 20)
            (inode,) = struct.unpack_from("=I", answer, 84)
            host = answer[24 : 24 + (4 if kind == socket.AF_INET else 16)]
            yield socket.inet_ntop(kind, host), port, inode
            answer, is_more = answer[-(-size // 4) * 4 :], bool(flags & DUMP)
    finally:
        kernel.close()
