"""UNIX socket on which processes put and get values, and wait for a change of their job."""

from __future__ import annotations

import os
import select

from koala_agent.starter.compat import log, to_number, to_whole
from koala_agent.starter.events import RankEnded, ValueRequested, WorldRequested
from koala_agent.starter.light import accept, dumps, loads, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.connection import Watch

KV_LINE_MAX_BYTES = 64 * 1024
SOCKET_PATH_MAX_BYTES = 107
KV_CONNECTIONS_MAX = 512
WAIT_MAX_S = 3600.0
TEMPORARY = "/tmp"


class KeyValueSocket:
    """Server of requests on a UNIX socket: one JSON line a request and answer."""

    def __init__(self, folder: str, nonce: str, watch: Watch) -> None:
        self._temporary = ""
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.path = self._bind(folder, nonce)
        self.received: list[ValueRequested | WorldRequested | RankEnded] = []
        self._watch = watch
        self._callers: dict[int, _Caller] = {}
        self._numbers: dict[int, _Caller] = {}
        self._asked = 0
        self._socket.listen(64)
        self._socket.settimeout(0)
        watch.add(self._socket.fileno(), select.POLLIN, self._accept)

    def _bind(self, folder: str, nonce: str) -> str:
        """Bind the socket in the claim's folder, with which it is removed however this process
        ends.

        A path of more than 107 bytes goes through this process's descriptor of the folder. Only
        where the file system has no sockets, a temporary folder is used. Raises OSError.
        """
        name = (
            f"kv.{nonce[-8:]}"  # unlike that of another starter of this claim or with this number
        )
        path = os.path.join(folder, name)
        if len(os.fsencode(path)) > SOCKET_PATH_MAX_BYTES:
            path = f"/proc/{os.getpid()}/fd/{self._folder}/{name}"
        try:
            self._socket.bind(path)
        except OSError as error:
            log(f"{path}: {error.strerror}; a socket in /tmp instead")
        else:
            return path
        from koala_agent.starter.files import temporary_folder  # noqa: PLC0415 - hardly ever needed

        self._temporary = os.path.join(TEMPORARY, temporary_folder.name_of(nonce))
        os.mkdir(self._temporary, 0o700)
        temporary_folder.hold(self._temporary)
        path = os.path.join(self._temporary, name)
        self._socket.bind(path)
        return path

    def answer(self, question: int, answer: dict[str, object]) -> None:
        """Answer a request, and handle the next line of the same caller."""
        caller = self._numbers.pop(question, None)
        if caller is not None:
            caller.is_waiting = False
            self._send(caller, answer)
            self._next(caller)

    def close(self) -> None:
        """Remove the socket."""
        self._socket.close()
        try:
            os.unlink(self.path)
            if self._temporary:
                for name in os.listdir(self._temporary):  # its lock
                    os.unlink(os.path.join(self._temporary, name))
                os.rmdir(self._temporary)
        except OSError as error:
            log(f"{self.path} cannot be removed: {error.strerror}")
        os.close(self._folder)

    def _accept(self, _events: int) -> None:
        try:
            connection = accept(self._socket)
        except OSError:
            return
        if len(self._callers) >= KV_CONNECTIONS_MAX:
            connection.close()
            return
        connection.settimeout(0)
        caller = _Caller(connection)
        self._callers[connection.fileno()] = caller
        self._watch.add(connection.fileno(), select.POLLIN, lambda _events: self._read(caller))

    def _read(self, caller: _Caller) -> None:
        try:
            part = caller.connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part or len(caller.unread) > KV_LINE_MAX_BYTES:
            self._drop(caller)
            return
        caller.unread += part
        self._next(caller)

    def _next(self, caller: _Caller) -> None:
        """Handle the next line unless an answer is pending; answers keep the requests' order."""
        while not caller.is_waiting and b"\n" in caller.unread:
            line, caller.unread = caller.unread.split(b"\n", 1)
            try:
                received = self._parse(line)
            except (ValueError, RecursionError) as error:
                self._send(caller, {"ok": False, "error": str(error)})
                continue
            self.received.append(received)
            if isinstance(received, RankEnded):
                self._send(caller, {"ok": True})
                continue
            caller.is_waiting = True
            self._numbers[received.question] = caller

    def _parse(self, line: bytes) -> ValueRequested | WorldRequested | RankEnded:
        """Parse a request. Raises ValueError that names the error and what is allowed."""
        request = loads(line)
        if isinstance(request, dict) and request.get("op") == "ended":  # from our own launcher
            rank, status = (to_whole(request, key) for key in ("rank", "status"))
            return RankEnded(rank=rank, status=status)
        if not isinstance(request, dict) or request.get("op") not in ("put", "get", "world"):
            text = 'not a request (expected a JSON object with "op": "put", "get" or "world")'
            raise ValueError(text)
        wait_s = to_number(request, "wait_s") if "wait_s" in request else 30.0
        wait_s = max(0.0, min(wait_s, WAIT_MAX_S))
        if request["op"] == "world":
            after = request.get("after")
            if isinstance(after, bool) or not isinstance(after, int):
                raise ValueError(f"after = {after!r} (expected a number of the job's members)")
            self._asked += 1
            return WorldRequested(question=self._asked, after=after, wait_s=wait_s)
        name = request.get("name")
        if not isinstance(name, str):
            raise ValueError(f"name = {name!r} (expected a string)")  # noqa: TRY004 - one kind
        self._asked += 1
        if request["op"] == "put":
            value = request.get("value")
            if not isinstance(value, str):
                raise ValueError(f"value = {value!r} (expected a string)")
            return ValueRequested(question=self._asked, name=name, value=value)
        return ValueRequested(question=self._asked, name=name, wait_s=wait_s)

    def _send(self, caller: _Caller, answer: dict[str, object]) -> None:
        try:
            caller.connection.send(dumps(answer) + b"\n")
        except OSError:  # it does not read, or is gone
            self._drop(caller)

    def _drop(self, caller: _Caller) -> None:
        descriptor = caller.connection.fileno()
        if descriptor >= 0:
            self._watch.remove(descriptor)
            del self._callers[descriptor]
            caller.connection.close()
        caller.unread = b""


class _Caller:
    """Connection of a process."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.unread = b""
        self.is_waiting = False
