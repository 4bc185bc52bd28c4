"""Find and reach the other processes of a co-allocated job; standard library only.

A program that Koala starts gets a *rendezvous bundle* (a JSON file, named by KOALA_BUNDLE) that
lists the member components and their addresses, and a *key-value exchange* (a UNIX socket, named by
KOALA_KV) for what is known only at run time, such as the port on which a process listens. This
module turns the two into connections between ranks:

    world = Rendezvous.from_environment("my-program")
    channels = world.meet([rank for rank in range(world.world_size) if rank != world.rank])
    answers = transfer(send={channels[1]: b"ping"}, receive=[channels[1]], timeout_s=30)

Every wait has a limit in seconds. Trouble is a `RendezvousError` that names the rank, component and
site concerned; `PeerLostError` when a process that had been reached ended or fell silent. Frames
are not encrypted: across open networks, put a tunnel or TLS around them.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

VALUE_BYTES_MAX = 4096
"""Longest value that the key-value exchange takes."""
FRAME_BYTES_MAX = 1 << 28
"""Longest frame that a channel accepts; a longer one means that the peer speaks something else."""

_ANSWER_MARGIN_S = 5.0
_RETRY_S = 0.1
_HELLO_S = 5.0
_CHUNK_BYTES = 1 << 16
_LENGTH = struct.Struct("!Q")


class RendezvousError(Exception):
    """The other processes cannot be found or reached."""


class PeerLostError(RendezvousError):
    """A process that had been reached ended, or fell silent past the limit."""

    def __init__(self, message: str, *, rank: int) -> None:
        super().__init__(message)
        self.rank = rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One component that takes part, as the bundle describes it to a reader at this site."""

    index: int
    component: int
    label: str
    site: str
    processors: int
    processes: int
    hosts: tuple[str, ...]
    address: str
    first_rank: int

    @property
    def ranks(self) -> range:
        """The global ranks of this member's processes."""
        return range(self.first_rank, self.first_rank + self.processes)


class KeyValueExchange:
    """Client of the exchange: job-wide names, each given one value within an attempt.

    One connection is kept and made again when it breaks, for an agent may restart under a running
    job; asking again is harmless, because a name keeps its value.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: socket.socket | None = None
        self._received = b""

    def put(self, name: str, value: str, *, wait_s: float = 30.0) -> None:
        """Give `name` its value; another value than the first one is refused."""
        size_bytes = len(value.encode())
        if size_bytes > VALUE_BYTES_MAX:
            message = f"value of {name!r} has {size_bytes} bytes; at most {VALUE_BYTES_MAX} allowed"
            raise RendezvousError(message)
        self._ask({"op": "put", "name": name, "value": value}, wait_s=wait_s)

    def get(self, name: str, *, wait_s: float = 30.0) -> str:
        """Return the value of `name`, waiting for somebody to put it."""
        answer = self._ask({"op": "get", "name": name}, wait_s=wait_s)
        value = answer.get("value")
        if not isinstance(value, str):
            message = f"key-value exchange answered {answer!r} for {name!r}; expected a value"
            raise RendezvousError(message)
        return value

    def close(self) -> None:
        """Let the connection go; the next request makes a new one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._received = b""

    def _ask(self, request: dict[str, Any], *, wait_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + wait_s
        while True:
            remaining_s = max(0.0, deadline - time.monotonic())
            if request["op"] == "get":
                request = {**request, "wait_s": remaining_s}
            try:
                answer = self._ask_once(request, limit_s=remaining_s + _ANSWER_MARGIN_S)
            except (OSError, ValueError) as error:
                self.close()
                if time.monotonic() + _RETRY_S > deadline:
                    message = f"key-value exchange at {self._path} does not answer: {error}"
                    raise RendezvousError(message) from error
                time.sleep(_RETRY_S)
                continue
            if answer.get("ok") is not True:
                message = f"{request['op']} {request['name']!r}: {answer.get('error', answer)}"
                raise RendezvousError(message)
            return answer

    def _ask_once(self, request: dict[str, Any], *, limit_s: float) -> dict[str, Any]:
        if self._connection is None:
            self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._connection.settimeout(limit_s)
            self._connection.connect(str(self._path))
        self._connection.settimeout(limit_s)
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        while b"\n" not in self._received:
            chunk = self._connection.recv(_CHUNK_BYTES)
            if not chunk:
                raise ConnectionResetError("it closed the connection")
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        answer = json.loads(line)
        if not isinstance(answer, dict):
            message = f"it answered {line!r}, not an object"
            raise ValueError(message)  # noqa: TRY004 - bad text from outside, as json's own error
        return answer


class Channel:
    """A two-way stream of frames (length, then bytes) to one other rank.

    The socket never blocks; `transfer` waits for several channels at once.
    """

    def __init__(self, connection: socket.socket, *, rank: int, peer: str) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rank = rank
        self.peer = peer
        self._connection = connection
        self._outgoing = bytearray()
        self._incoming = bytearray()

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._connection.fileno()

    def close(self) -> None:
        """Close the stream; the peer reads what was flushed, then its end."""
        self._connection.close()

    def queue(self, payload: bytes) -> None:
        """Append a frame to what waits to be sent."""
        self._outgoing += _LENGTH.pack(len(payload))
        self._outgoing += payload

    def flush(self) -> bool:
        """Send what the kernel takes now; True when nothing is left."""
        while self._outgoing:
            try:
                sent = self._connection.send(self._outgoing)
            except BlockingIOError:
                return False
            except OSError as error:
                raise self.lost(error.strerror or "connection broken") from error
            del self._outgoing[:sent]
        return True

    def take(self) -> bytes | None:
        """The next whole frame, or None when it has not arrived yet."""
        while (frame := self._whole_frame()) is None:
            try:
                chunk = self._connection.recv(_CHUNK_BYTES)
            except BlockingIOError:
                return None
            except OSError as error:
                raise self.lost(error.strerror or "connection broken") from error
            if not chunk:
                raise self.lost("it closed the connection")
            self._incoming += chunk
        return frame

    def lost(self, reason: str) -> PeerLostError:
        """The error that says that this peer is gone."""
        return PeerLostError(f"lost {self.peer}: {reason}", rank=self.rank)

    def _whole_frame(self) -> bytes | None:
        if len(self._incoming) < _LENGTH.size:
            return None
        (size_bytes,) = _LENGTH.unpack_from(self._incoming)
        if size_bytes > FRAME_BYTES_MAX:
            raise self.lost(f"frame of {size_bytes} bytes; at most {FRAME_BYTES_MAX} allowed")
        end = _LENGTH.size + size_bytes
        if len(self._incoming) < end:
            return None
        frame = bytes(self._incoming[_LENGTH.size : end])
        del self._incoming[:end]
        return frame


def transfer(
    *, send: Mapping[Channel, bytes], receive: Collection[Channel], timeout_s: float
) -> dict[int, bytes]:
    """Send a frame on some channels while receiving one on others; return the frames by rank.

    All move at once, in whatever order the network allows, so two peers that send each other more
    than the kernel buffers do not wait for each other for ever.
    """
    for channel, payload in send.items():
        channel.queue(payload)
    deadline = time.monotonic() + timeout_s
    sending, receiving = list(send), list(receive)
    frames: dict[int, bytes] = {}
    while True:
        sending = [channel for channel in sending if not channel.flush()]
        waiting = []
        for channel in receiving:
            frame = channel.take()
            if frame is None:
                waiting.append(channel)
            else:
                frames[channel.rank] = frame
        receiving = waiting
        if not sending and not receiving:
            return frames
        _wait(sending, receiving, deadline=deadline, timeout_s=timeout_s)


def _wait(
    sending: list[Channel], receiving: list[Channel], *, deadline: float, timeout_s: float
) -> None:
    """Block until a channel can move on; past the deadline the first one waited for is lost."""
    poller = select.poll()
    events: dict[int, int] = {}
    for channels, event in ((sending, select.POLLOUT), (receiving, select.POLLIN)):
        for channel in channels:
            events[channel.fileno()] = events.get(channel.fileno(), 0) | event
    for descriptor, event in events.items():
        poller.register(descriptor, event)
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0 or not poller.poll(remaining_s * 1000):
        silent = (receiving or sending)[0]
        raise silent.lost(f"it was silent for {timeout_s:.3g} s")


class Rendezvous:
    """This process's place in the job, and the way to the others.

    `program` prefixes the names in the exchange (`program/RANK` = `host:port`), so two parts of a
    program can meet without getting in each other's way.
    """

    def __init__(
        self,
        program: str,
        *,
        bundle: Mapping[str, Any],
        process: int,
        exchange: KeyValueExchange,
        input_path: Path | None = None,
    ) -> None:
        self.program = program
        self.exchange = exchange
        self.input_path = input_path
        self.process = process
        try:
            self.job = str(bundle["job"])
            self.attempt = int(bundle["attempt"])
            self.members = _members(bundle["members"])
            self.member = self.members[int(bundle["index"])]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise RendezvousError(f"bundle has no usable {error}") from error
        if process not in range(self.member.processes):
            message = f"process {process} of a component with {self.member.processes} processes"
            raise RendezvousError(message)
        self.rank = self.member.first_rank + process
        self.world_size = sum(member.processes for member in self.members)
        self._listener: socket.socket | None = None

    @classmethod
    def from_environment(cls, program: str, environment: Mapping[str, str] | None = None) -> Self:
        """Read bundle and exchange from the variables that Koala's starter sets."""
        variables = os.environ if environment is None else environment
        try:
            bundle_path = Path(variables["KOALA_BUNDLE"])
            exchange = KeyValueExchange(Path(variables["KOALA_KV"]))
            process = int(variables["KOALA_PROCESS"])
            rank, world_size = int(variables["RANK"]), int(variables["WORLD_SIZE"])
            attempt = int(variables["KOALA_ATTEMPT"])
        except KeyError as error:
            message = f"{error.args[0]} is not set: start this program with `koala submit`"
            raise RendezvousError(message) from error
        except ValueError as error:
            raise RendezvousError(f"environment: {error}") from error
        try:
            bundle = json.loads(bundle_path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RendezvousError(f"bundle {bundle_path}: {error}") from error
        input_path = Path(variables["KOALA_INPUT"]) if variables.get("KOALA_INPUT") else None
        world = cls(
            program, bundle=bundle, process=process, exchange=exchange, input_path=input_path
        )
        if (world.rank, world.world_size, world.attempt) != (rank, world_size, attempt):
            message = (
                f"bundle says rank {world.rank} of {world.world_size} in attempt {world.attempt}, "
                f"the environment rank {rank} of {world_size} in attempt {attempt}"
            )
            raise RendezvousError(message)
        return world

    def member_of(self, rank: int) -> Member:
        """The component that a global rank belongs to."""
        for member in self.members:
            if rank in member.ranks:
                return member
        raise RendezvousError(f"no rank {rank}; ranks are 0 to {self.world_size - 1}")

    def describe(self, rank: int) -> str:
        """A rank in the words of a message: rank 3 (component 1 'middle' at delft)."""
        member = self.member_of(rank)
        return f"rank {rank} (component {member.component} {member.label!r} at {member.site})"

    def listen(self) -> None:
        """Open a port on this component's address and publish it in the exchange; once.

        A component on one host listens on the address that the bundle gives; where that address is
        not this machine's own (address translation), and on components of several hosts, on all.
        """
        if self._listener is not None:
            return
        several_hosts = len(self.member.hosts) > 1
        host = socket.gethostname() if several_hosts else self.member.address
        self._listener = self._open("" if several_hosts else host)
        port = self._listener.getsockname()[1]
        self.exchange.put(f"{self.program}/{self.rank}", f"{host}:{port}")

    def connect(self, rank: int, *, timeout_s: float = 30.0) -> Channel:
        """Connect to a rank that listens, waiting for it to publish its port."""
        deadline = time.monotonic() + timeout_s
        channel = self._dial(rank, timeout_s=timeout_s)
        self._confirm(channel, timeout_s=max(0.0, deadline - time.monotonic()))
        return channel

    def accept(self, expected: Collection[int], *, timeout_s: float = 30.0) -> Channel:
        """Take the connection of one of the expected ranks; strangers are turned away."""
        self.listen()
        assert self._listener is not None
        deadline = time.monotonic() + timeout_s
        while True:
            self._listener.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                connection, origin = self._listener.accept()
            except TimeoutError as error:
                missing = ", ".join(self.describe(rank) for rank in sorted(expected))
                message = f"no connection within {timeout_s:.3g} s from {missing}"
                raise RendezvousError(message) from error
            caller = Channel(connection, rank=-1, peer=f"caller at {origin[0]}:{origin[1]}")
            try:
                limit_s = min(_HELLO_S, max(0.0, deadline - time.monotonic()))
                hello = transfer(send={}, receive=[caller], timeout_s=limit_s)[caller.rank]
                caller.rank = self._rank_in(hello, expected)
            except RendezvousError:
                caller.close()
                continue
            caller.peer = self.describe(caller.rank)
            transfer(send={caller: self._hello()}, receive=[], timeout_s=_HELLO_S)
            return caller

    def meet(self, ranks: Iterable[int], *, timeout_s: float = 30.0) -> dict[int, Channel]:
        """Connect with each of these ranks, which call `meet` with this one among theirs.

        The higher rank of a pair dials. Nobody waits for an answer before it has accepted its own
        callers, so that a ring of waiting processes cannot come about.
        """
        deadline = time.monotonic() + timeout_s
        self.listen()
        peers = sorted(set(ranks) - {self.rank})
        dialled = [
            self._dial(rank, timeout_s=max(0.0, deadline - time.monotonic()))
            for rank in peers
            if rank < self.rank
        ]
        channels = {channel.rank: channel for channel in dialled}
        awaited = {rank for rank in peers if rank > self.rank}
        while awaited:
            caller = self.accept(awaited, timeout_s=max(0.0, deadline - time.monotonic()))
            channels[caller.rank] = caller
            awaited.remove(caller.rank)
        for channel in dialled:
            self._confirm(channel, timeout_s=max(0.0, deadline - time.monotonic()))
        return channels

    def close(self) -> None:
        """Stop listening and leave the exchange; channels stay open."""
        if self._listener is not None:
            self._listener.close()
        self._listener = None
        self.exchange.close()

    def _open(self, host: str) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host, 0), family=family, backlog=self.world_size + 8)
        except OSError as error:
            if host:
                return self._open("")
            raise RendezvousError(f"cannot listen: {error}") from error

    def _dial(self, rank: int, *, timeout_s: float) -> Channel:
        """Connect and say who calls, without waiting for the answer."""
        member = self.member_of(rank)
        published = self.exchange.get(f"{self.program}/{rank}", wait_s=timeout_s)
        host, _, port = published.rpartition(":")
        if len(member.hosts) == 1:
            host = member.address  # as seen from this site, which the publisher cannot know
        try:
            connection = socket.create_connection((host, int(port)), timeout=max(timeout_s, 0.001))
        except (OSError, ValueError) as error:
            message = f"cannot reach {self.describe(rank)} at {host}:{port}: {error}"
            raise RendezvousError(message) from error
        channel = Channel(connection, rank=rank, peer=self.describe(rank))
        transfer(send={channel: self._hello()}, receive=[], timeout_s=timeout_s)
        return channel

    def _confirm(self, channel: Channel, *, timeout_s: float) -> None:
        """Read who answered; a port may have passed to another program meanwhile."""
        hello = transfer(send={}, receive=[channel], timeout_s=timeout_s)[channel.rank]
        self._rank_in(hello, {channel.rank})

    def _hello(self) -> bytes:
        return json.dumps(
            {"program": self.program, "job": self.job, "attempt": self.attempt, "rank": self.rank}
        ).encode()

    def _rank_in(self, hello: bytes, expected: Collection[int]) -> int:
        """The rank that a hello names, if it is of this attempt and expected."""
        try:
            said = json.loads(hello)
            same = (said["program"], said["job"], said["attempt"]) == (
                self.program,
                self.job,
                self.attempt,
            )
            rank = int(said["rank"])
        except (KeyError, TypeError, ValueError) as error:
            raise RendezvousError(f"{hello[:80]!r} is no greeting of this job") from error
        if not same or rank not in expected:
            message = f"{said!r} is not expected in attempt {self.attempt} of {self.job}"
            raise RendezvousError(message)
        return rank


def _members(entries: Iterable[Mapping[str, Any]]) -> tuple[Member, ...]:
    """The bundle's members, with the global ranks counted through them in order."""
    members: list[Member] = []
    first_rank = 0
    for entry in entries:
        member = Member(
            index=int(entry["index"]),
            component=int(entry["component"]),
            label=str(entry["label"]),
            site=str(entry["site"]),
            processors=int(entry["processors"]),
            processes=int(entry["processes"]),
            hosts=tuple(str(host) for host in entry["hosts"]),
            address=str(entry["address"]),
            first_rank=first_rank,
        )
        members.append(member)
        first_rank += member.processes
    return tuple(members)
