"""Client of file syncs: a child process that moves files between this machine and the agent.

It serves a starter or a helper whose files the agent does not see. It may block, as a process of
its own.

- It fetches the program's input, sends new log data while the program runs, and in the end the rest
  of the logs and the outputs.
- It sends one request at a time over its own connection to the agent, as JSON lines.
- The agent answers with the size that it has of a file, so that an interrupted sync resumes.
- A checksum of the whole file confirms each.
- It keeps one block in memory.
"""

from __future__ import annotations

import binascii
import os
import select

from koala_agent.starter.challenge_response import Prover
from koala_agent.starter.compat import dataclass, log, to_object
from koala_agent.starter.connection import find_address
from koala_agent.starter.light import dumps, loads, signal, socket
from koala_agent.starter.process_tree import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from koala_agent.starter.mailbox.client import MailboxConnector

BLOCK_BYTES = 128 * 1024
POLL_S = 0.25
"""Pause between two polls of the logs."""
AGAIN_S, AGAIN_MAX_S = 0.1, 2.0
DIAL_S, ANSWER_S = 3.0, 60.0
"""Time limits of the agent: of a connection, and of an answer."""
SUM_BPS = 10_000_000
"""Least rate at which the agent computes a checksum; it extends the time limit of that request."""
KEEPALIVE = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""Keepalive that detects a dead peer within a minute, whatever the time limit of a request."""


@dataclass(kw_only=True)
class SyncRequest:
    """Files to sync: logs by their paths below `folder`, outputs by name and path.

    The agent is reached at the addresses `agents`, or by files in `mailbox`.
    `identity` authenticates to it; `fetches` when there is an input. `inputs` are the input
    files by name and path; empty where the agent names none. `patterns` are of further outputs in
    the program's `directory`; `staged` are the names and modes of files that go along.
    """

    folder: str
    agents: list[tuple[str, int]]
    identity: dict[str, object]
    fetches: bool
    inputs: list[tuple[str, str]]
    logs: list[str]
    outputs: list[tuple[str, str]]
    mailbox: str = ""
    directory: str = ""
    patterns: tuple[str, ...] = ()
    staged: tuple[tuple[str, int], ...] = ()


class RefusedError(Exception):
    """The agent refuses the file for good."""


class NotNowError(RefusedError):
    """The agent has no room for the file now, or its disk fails."""


class FileSyncClient:
    """Starter's handle of the file sync process."""

    def __init__(self, request: SyncRequest) -> None:
        self._request = request
        self._unread = b""
        own, its = socket.socketpair()
        self._parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _serve(request, its, self._parent)
        its.close()
        own.settimeout(0)
        self.socket = own

    def deliver(self, *, is_whole: bool) -> None:
        """Request the final delivery."""
        try:
            self.socket.send(b"whole\n" if is_whole else b"logs\n")
        except OSError as error:
            log(f"file sync: {error}")

    def receive(self) -> list[dict[str, object]]:
        """Receive its messages: that it is ready, and the files that it could not deliver."""
        try:
            self._unread += self.socket.recv(65536)
        except OSError:
            return []
        *lines, self._unread = self._unread.split(b"\n")
        return [to_object(loads(line)) for line in lines]

    def close(self) -> None:
        """Close the socket, which ends the process."""
        self.socket.close()


def _serve(request: SyncRequest, starter: socket.socket, parent: int) -> NoReturn:
    """Run the process. Never returns."""
    try:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        for name in ("SIGTERM", "SIGINT", "SIGXCPU", "SIGUSR2"):
            signal.signal(
                getattr(signal, name), signal.SIG_IGN
            )  # the rest of the files is still wanted
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # its postmen are waited for by nobody
        os.setsid()
        if starter.fileno() != 3:
            os.dup2(starter.fileno(), 3)
        os.closerange(4, 4096)
        _Worker(request, socket.socket(socket.AF_UNIX, fileno=os.dup(3))).run()
    except Exception as error:  # noqa: BLE001 - a process of its own: this is its last word
        log(f"file sync: {type(error).__name__}: {error}")
    finally:
        os._exit(0)


class _Worker:
    def __init__(self, request: SyncRequest, starter: socket.socket) -> None:
        self._request = request
        self._starter = starter
        self._connection: socket.socket | None = None
        self._unread = b""
        self._next = 0
        self._files: MailboxConnector | None = None
        self._sent: dict[str, int] = {}
        self._logged: dict[str, str] = {}
        self._command = ""

    def run(self) -> None:
        if self._request.fetches:
            for name, path in self._request.inputs:
                self._fetch(path, name=name)
            for name, mode in self._request.staged:
                self._fetch(name, name=name, staged=True)
                os.chmod(self._path(name), mode)
        self._send({"ready": True})
        while not self._command:
            self._upload_logs()
            self._wait(POLL_S)
        problems = list(self._finish())
        self._send({"problem": "; ".join(problems)})
        self._hang_up()
        if self._files is not None:
            self._files.close()
        self._wait(ANSWER_S)

    def _finish(self) -> Iterator[str]:
        """Send all that is left; yield the errors of the rest."""
        self._upload_logs()
        files = [(name, name, False) for name in self._request.logs]
        if self._command == "whole":
            files += [(name, path, True) for name, path in self._request.outputs]
            matched, problem = self._matched()
            files += [(name, path, True) for name, path in matched]
            if problem:
                yield problem
        for name, path, is_output in files:
            if os.path.isfile(self._path(path)):
                try:
                    self._complete_with_retries(name, self._path(path), is_output=is_output)
                except (RefusedError, OSError) as error:
                    yield f"{name}: {error}"

    def _matched(self) -> tuple[list[tuple[str, str]], str]:
        """Return the names and paths of the outputs that patterns match, and the problem."""
        if not self._request.patterns:
            return [], ""
        from koala_agent.starter.files.output_patterns import chosen, files_below  # noqa: PLC0415 - late: most need none

        directory = self._request.directory
        names, problem = chosen(self._request.patterns, files_below(directory), is_all=False)
        paths = [os.path.join(directory, name) for name in names]
        return [(os.path.relpath(path, self._request.folder), path) for path in paths], problem

    def _upload_logs(self) -> None:
        for name in self._request.logs:
            path = self._path(name)
            try:
                if os.path.getsize(path) > self._sent.get(name, 0):
                    self._upload(name, path)
            except FileNotFoundError:
                continue
            except (RefusedError, OSError) as error:
                self._log_once(name, str(error))

    def _log_once(self, name: str, problem: str) -> None:
        """Log an error once: the log is itself a file to send."""
        if self._logged.get(name) != problem:
            self._logged[name] = problem
            log(f"file sync: {name}: {problem}")

    def _upload(self, name: str, path: str) -> None:
        """Send the data of a file that the agent does not have yet."""
        with open(path, "rb") as file:
            has_bytes = self._sent.get(name)
            if has_bytes is None:
                has_bytes = self._ask_size("size", name=name)
            while True:
                file.seek(has_bytes)
                block = file.read(BLOCK_BYTES)
                if not block:
                    break
                data = binascii.b2a_base64(block, newline=False).decode()
                has_bytes = self._ask_size("put", name=name, offset=has_bytes, data=data)
            self._sent[name] = has_bytes

    def _complete_with_retries(self, name: str, path: str, *, is_output: bool) -> None:
        """Retry an output that the agent has no room for, as long as the starter waits.

        Hours of computation must not be repeated for a full disk.
        """
        while True:
            try:
                self._complete(name, path)
            except NotNowError as error:
                if not is_output:
                    raise
                self._log_once(name, str(error))
                self._wait(AGAIN_MAX_S)
            else:
                return

    def _complete(self, name: str, path: str) -> None:
        """Send a file until the agent has all of it and the checksum agrees; restart it once if
        not.
        """
        import hashlib  # noqa: PLC0415 - late: a starter waits for nothing of it

        for _ in range(2):
            self._upload(name, path)
            size = self._sent[name]
            digest, left = hashlib.sha256(), size
            with open(path, "rb") as file:
                while left > 0:
                    block = file.read(min(left, BLOCK_BYTES))
                    if not block:
                        break
                    digest.update(block)
                    left -= len(block)
            answer = self._ask("done", name=name, size=size, checksum=digest.hexdigest())
            if answer.get("ok"):
                return
            _raise_if_passing(answer)
            self._sent[name] = 0
            log(f"file sync: {name}: {answer.get('error')}")
        raise RefusedError("the checksum is another one at the agent")

    def _fetch(self, below: str, **named: object) -> None:
        """Fetch an input once it is there; the claim may ask for it earlier."""
        import hashlib  # noqa: PLC0415 - late: a starter waits for nothing of it

        path = self._path(below)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        digest, size = hashlib.sha256(), 0
        with open(f"{path}.part", "wb") as file:
            while True:
                answer = self._ask("get", offset=size, **named)
                if answer.get("wait") or answer.get("again"):
                    self._wait(POLL_S)
                    continue
                if not answer.get("ok"):
                    raise RefusedError(f"{below}: {answer.get('error')}")
                block = binascii.a2b_base64(str(answer["data"]))
                if not block:
                    break
                file.write(block)
                digest.update(block)
                size += len(block)
        answer = self._ask("sum", size=size, **named)
        if answer.get("checksum") != digest.hexdigest():
            raise RefusedError(f"{below}: the checksum is another one here")
        os.replace(f"{path}.part", path)

    def _path(self, name: str) -> str:
        return os.path.join(self._request.folder, name)

    # The starter ---------------------------------------------------------------------------------

    def _send(self, message: dict[str, object]) -> None:
        self._starter.sendall(dumps(message) + b"\n")

    def _wait(self, wait_s: float) -> None:
        """Wait for a command of the starter; exit without a starter."""
        if select.select([self._starter], [], [], wait_s)[0]:
            command = self._starter.recv(100)
            if not command:
                os._exit(0)
            self._command = command.decode().split()[-1]

    # The agent -----------------------------------------------------------------------------------

    def _ask_size(self, kind: str, **fields: object) -> int:
        answer = self._ask(kind, **fields)
        size = answer.get("size")
        _raise_if_passing(answer)
        if not answer.get("ok") or not isinstance(size, int):
            raise RefusedError(str(answer.get("error", "no size")))
        return size

    def _ask(self, kind: str, **fields: object) -> dict[str, object]:
        """Send one request, with retries and back-off until it is answered."""
        again_s = AGAIN_S
        while True:
            try:
                return self._try({"kind": kind, **fields})
            except (OSError, ValueError) as error:
                self._hang_up()
                log(f"file sync: {error}")
            self._wait(again_s)
            again_s = min(AGAIN_MAX_S, 2 * again_s)

    def _try(self, question: dict[str, object]) -> dict[str, object]:
        if self._connection is None:
            identity = self._request.identity
            claim, secret = str(identity["claim"]), str(identity["secret"])
            is_by_files = bool(self._request.mailbox)
            self._connection = self._by_files(claim, secret) if is_by_files else self._dial()
            self._unread = b""
            prover = Prover(claim, secret)
            prover.handle_challenge(self._exchange(prover.question()))
            if not prover.is_trusted:
                raise ValueError("the agent does not know this claim, or it is somebody else")
            self._exchange(prover.add_proof({"kind": "courier", **identity}))
        return self._exchange(question)

    def _dial(self) -> socket.socket:
        host, port = self._request.agents[self._next % len(self._request.agents)]
        self._next += 1
        family, address = find_address(host, port)
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(DIAL_S)
        connection.connect(address)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return connection

    def _by_files(self, claim: str, secret: str) -> socket.socket:
        from koala_agent.starter.mailbox.client import MailboxConnector  # noqa: PLC0415 - late: most dial

        if self._files is None:
            self._files = MailboxConnector(self._request.mailbox, claim, secret)
        return self._files.open()

    def _exchange(self, question: dict[str, object]) -> dict[str, object]:
        assert self._connection is not None
        to_sum = question["size"] if question["kind"] in ("sum", "done") else 0
        assert isinstance(to_sum, int)
        self._connection.settimeout(ANSWER_S + to_sum / SUM_BPS)
        self._connection.sendall(dumps(question) + b"\n")
        while b"\n" not in self._unread:
            part = self._connection.recv(65536)
            if not part:
                raise ConnectionError("the agent hung up")
            self._unread += part
        line, self._unread = self._unread.split(b"\n", 1)
        answer = loads(line)
        if not isinstance(answer, dict):
            raise ValueError(f"{answer!r} is not an answer")  # noqa: TRY004 - as bad as any other
        return answer

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _raise_if_passing(answer: dict[str, object]) -> None:
    if answer.get("again"):
        raise NotNowError(str(answer.get("error")))
