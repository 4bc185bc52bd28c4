"""Failing handshakes on real sockets: each is refused and told why, and the daemon's log has the
reason.

The daemon is a process, since the reason of a handshake that fails is said by gRPC itself, on
standard error.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from koala.client import AsyncClient
from koala.common.identity.credentials import PLAIN, read_credentials
from koala.common.identity.tls import DAEMON_HOST, secure_channel, server_credentials
from koala.common.wire.connection_diagnosis import why_not
from koala.common.wire.v1.identity_pb2 import RenewRequest, WhereRequest
from koala.common.wire.v1.identity_pb2_grpc import EnrolmentStub
from koala.errors import ConfigError, UnauthenticatedError
from tests.common.identity.stage import LIMIT_S, Forge, old_tls

pytestmark = pytest.mark.live


class Process:
    """A daemon's process: where it answers, and what it said."""

    def __init__(self, folder: Path) -> None:
        self.state_dir = folder / "state"
        self.log_path = folder / "log"
        config = folder / "daemon.toml"
        config.write_text('[daemon]\nlisten = "127.0.0.1:0"\nstate_dir = "state"\n')
        # A command that another test ran in this process has set it: gRPC would be silent.
        variables = {k: v for k, v in os.environ.items() if k != "GRPC_VERBOSITY"}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "koala.daemon", str(config)],
                stderr=log,
                env={**variables, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        endpoint = self.state_dir / "endpoint"
        while not endpoint.exists():
            assert self.process.poll() is None, self.log()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
        self.address = endpoint.read_text().strip()
        path = self.state_dir / "authority" / "administrator.toml"
        self.administrator = read_credentials(path)
        self.certified = asyncio.run(self._certified())

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def said_since(self, mark: int, pattern: str) -> None:
        """Wait until the log says this, after so many characters: for a minute, at most."""
        for _ in range(1_200):
            if re.search(pattern, self.log()[mark:]):
                return
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
        raise AssertionError(f"no {pattern!r} in {self.log()[mark:]}")

    async def _certified(self) -> str:
        authority = self.administrator.authority
        channel = secure_channel(self.address, DAEMON_HOST, authority=authority, options=())
        async with channel:
            where = await EnrolmentStub(channel).Where(WhereRequest(), timeout=LIMIT_S)
        return f"127.0.0.1:{where.port}"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    made = Process(tmp_path_factory.mktemp("daemon"))
    yield made
    made.process.send_signal(signal.SIGTERM)
    assert made.process.wait(30) == 0
    assert "Traceback" not in made.log()


@pytest.fixture(scope="module")
def forge(daemon: Process) -> Forge:
    return Forge(daemon.state_dir)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Forge:
    return Forge(tmp_path_factory.mktemp("stranger"))


@pytest.mark.parametrize(
    ("what", "told", "logged"),
    [
        ("expired", "which has expired", "certificate has expired"),
        ("not yet", "not valid yet by its clock", "certificate is not yet valid"),
        (
            "foreign",
            "another authority",
            "unable to get local issuer|certificate signature failure",
        ),
        ("a server's", "another purpose", "unsupported certificate purpose"),
    ],
)
def test_a_certificate_that_is_not_good_is_told_at_both_ends(
    daemon: Process, forge: Forge, stranger: Forge, what: str, told: str, logged: str
) -> None:
    mark = len(daemon.log())
    match what:
        case "expired":
            identity = forge.identity("delft", from_s=-100, until_s=-1)
        case "not yet":
            identity = forge.identity("delft", from_s=1000)
        case "foreign":
            identity = stranger.identity("delft")
            identity = replace(identity, authority=daemon.administrator.authority)
        case _:
            purpose = ExtendedKeyUsageOID.SERVER_AUTH
            identity = forge.identity("delft", purpose=purpose)
    finding = asyncio.run(
        why_not(
            daemon.certified,
            DAEMON_HOST,
            authority=daemon.administrator.authority,
            identity=identity,
            now=time.time(),
        )
    )
    assert finding.is_refusal
    assert told in finding.text
    daemon.said_since(mark, logged)


def test_no_certificate_does_not_pass_the_port_for_them(daemon: Process) -> None:
    mark = len(daemon.log())
    authority = daemon.administrator.authority
    finding = asyncio.run(why_not(daemon.certified, DAEMON_HOST, authority=authority))
    assert finding.is_refusal
    assert "we showed none" in finding.text
    daemon.said_since(mark, "PEER_DID_NOT_RETURN_A_CERTIFICATE")


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("koala://site/eve", "site 'eve' is not enrolled here"),
        ("koala://user/eve", "users show a token, which an administrator makes"),
    ],
)
def test_a_good_certificate_that_the_daemon_does_not_know_is_refused_by_name(
    daemon: Process, forge: Forge, uri: str, told: str
) -> None:
    """A user is told to get a token."""
    mark = len(daemon.log())
    identity = forge.identity("eve", uri=uri)

    async def call() -> None:
        channel = secure_channel(
            daemon.certified,
            DAEMON_HOST,
            authority=identity.authority,
            identity=identity,
            options=(),
        )
        async with channel:
            await EnrolmentStub(channel).Renew(RenewRequest(), timeout=LIMIT_S)

    with pytest.raises(grpc.aio.AioRpcError, match=told) as refused:
        asyncio.run(call())
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    daemon.said_since(mark, told + ".*call.refused")


@pytest.mark.parametrize("is_certified", [False, True])
def test_plain_text_and_old_tls_come_to_nothing(daemon: Process, is_certified: bool) -> None:
    address = daemon.certified if is_certified else daemon.address
    host, _, port = address.rpartition(":")
    mark = len(daemon.log())
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as plain:
        plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        with suppress(ConnectionError):
            assert b"HTTP" not in plain.recv(1000)
    daemon.said_since(mark, "WRONG_VERSION_NUMBER|HTTP_REQUEST")
    mark = len(daemon.log())
    with (
        socket.create_connection((host, int(port)), timeout=LIMIT_S) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
        old_tls().wrap_socket(plain),
    ):
        pass
    daemon.said_since(mark, "UNSUPPORTED_PROTOCOL")


def test_plain_text_to_a_daemon_with_tls_is_told(daemon: Process) -> None:
    async def call() -> None:
        async with AsyncClient(daemon.address, credentials=PLAIN) as client:
            await client.hello()

    with pytest.raises(UnauthenticatedError, match="speaks TLS, and was dialled in plain text"):
        asyncio.run(call())


def test_no_credentials_are_told_with_where_they_are_looked_for(
    daemon: Process, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KOALA_RUNTIME_DIR", str(tmp_path))

    async def call() -> None:
        async with AsyncClient(daemon.address) as client:
            await client.hello()

    tmp_path.chmod(0o700)
    with pytest.raises(UnauthenticatedError, match=r"no credentials for .*credentials\.toml"):
        asyncio.run(call())


def test_plain_text_does_not_leave_the_machine() -> None:
    with pytest.raises(ConfigError, match="expected a loopback address,"):
        AsyncClient("koala.example.org:7740", credentials=PLAIN)


# --- servers that are not what they should be -----------------------------------------------------


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("foreign", "signed by another authority"),
        ("a site's", "not the daemon's: somebody else answers"),
        ("expired", "its certificate has expired"),
        ("not yet", "not valid yet"),
        ("a client's", "its certificate|another authority|TLS"),
        ("plain", "it speaks no TLS"),
    ],
)
async def test_a_server_that_is_not_the_daemon_is_not_spoken_to(
    daemon: Process, forge: Forge, stranger: Forge, what: str, told: str
) -> None:
    """The token is not sent to it, and the user hears what is wrong."""
    server_purpose = ExtendedKeyUsageOID.SERVER_AUTH
    match what:
        case "foreign":
            shown = stranger.identity("x", purpose=server_purpose, host=DAEMON_HOST)
        case "a site's":
            shown = forge.identity("delft", purpose=server_purpose)
        case "expired":
            shown = forge.identity(
                "x", purpose=server_purpose, host=DAEMON_HOST, from_s=-9, until_s=-1
            )
        case "not yet":
            shown = forge.identity("x", purpose=server_purpose, host=DAEMON_HOST, from_s=900)
        case _:
            shown = forge.identity("x", host=DAEMON_HOST)
    heard: list[object] = []

    class Listening(grpc.aio.ServerInterceptor):
        async def intercept_service(self, continuation, handler_call_details):  # type: ignore[no-untyped-def]
            heard.append(handler_call_details.invocation_metadata)
            return await continuation(handler_call_details)

    server = grpc.aio.server(interceptors=(Listening(),))
    if what == "plain":
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        credentials = server_credentials(lambda: shown, is_mutual=False)
        port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        address = f"127.0.0.1:{port}"
        async with AsyncClient(address, credentials=daemon.administrator) as client:
            with pytest.raises(UnauthenticatedError, match=told):
                await client.hello()
    finally:
        await server.stop(0)
    assert heard == []
