"""Listening ports of the daemon, with their TLS and authentication.

There are two ports and one server. gRPC for Python requests a client certificate from every client
of a port or from none. So agents use `daemon.agents`; callers without a certificate (users, sites
that join) use `daemon.listen`. Both use TLS, and one table (`access_rules`) says which calls are
allowed on them. In plain text there is one port, and no secrets.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import grpc

from koala.common.identity.credentials import (
    Credentials,
    announce,
    credentials_text,
    read_credentials,
)
from koala.common.identity.private_files import check_private, write_private
from koala.common.identity.tls import IdentityFile, server_credentials
from koala.common.runtime.clock import now
from koala.common.runtime.structured_log import get_logger
from koala.common.wire.listen_ports import cannot_listen, check_free, reserve
from koala.common.wire.v1.identity_pb2_grpc import add_EnrolmentServicer_to_server
from koala.daemon.auth.access_rules import Role
from koala.daemon.auth.audit import Audit, account
from koala.daemon.auth.certificate_authority import ADMINISTRATOR_FILE, FOLDER, CertificateAuthority
from koala.daemon.auth.credential_store import CredentialStore, SiteRecord, UserRecord
from koala.daemon.auth.enrolment_service import EnrolmentService
from koala.daemon.auth.interceptor import AuthInterceptor, OpenStreams
from koala.daemon.config import Config
from koala.daemon.quotas import FairQueue
from koala.errors import ConfigError

RENEWAL_POLL_S = 3600.0
RELAY_END_S = 3.0
RELAY_POLL_S = 0.05

log = get_logger()


class Listeners:
    """The ports and their credentials, created before anything is served. Raises ConfigError."""

    def __init__(
        self,
        config: Config,
        write_with_ballast: Callable[[Callable[[], None]], None] = lambda write: write(),
    ) -> None:
        self.authority: CertificateAuthority | None = None
        self.credentials: CredentialStore | None = None
        self.audit = Audit(config.state_dir)
        self.call_queue = FairQueue(most=config.limits.calls_per_user)
        self._streams = OpenStreams()
        self._config = config
        self._identity: IdentityFile | None = None
        self._announced: Path | None = None
        self._for_relay: socket.socket | None = None
        if config.daemon.plain:
            log.warning(
                "daemon.unencrypted",
                listen=config.daemon.listen,
                meaning="nothing is encrypted, and whoever reaches the port may do everything",
            )
            return
        self.authority = CertificateAuthority.open(config.state_dir)
        self.credentials = CredentialStore(
            self.authority.folder, write_with_ballast, changed=self._streams.recheck
        )
        self._identity = IdentityFile(self.authority.serving())
        for site in self.enrolled.values():
            if site.clock_trouble:
                log.warning("site.certificate_not_valid", site=site.name, reason=site.clock_trouble)

    @property
    def enrolled(self) -> Mapping[str, SiteRecord]:
        """The enrolled sites; none in plain text."""
        return {} if self.credentials is None else self.credentials.sites

    @property
    def users(self) -> Mapping[str, UserRecord]:
        """The users with credentials; none in plain text."""
        return {} if self.credentials is None else self.credentials.users

    @property
    def ports(self) -> int:
        """Number of ports: agents have their own, unless all is plain text."""
        return 1 if self._identity is None else 2

    @property
    def identity(self) -> IdentityFile | None:
        """The daemon's own identity; None in plain text."""
        return self._identity

    @property
    def identity_path(self) -> str:
        """Path of the daemon's own identity, which the relay uses, too; empty in plain text."""
        return "" if self._identity is None else str(self._identity.path)

    def open(self, server: grpc.aio.Server) -> int:
        """Open the ports and return the number of the one for clients. Raises ConfigError."""
        if self._identity is None or self.authority is None or self.credentials is None:
            return _open("daemon.listen", self._config.daemon.listen, server.add_insecure_port)
        read = self._identity.read
        for_clients = server_credentials(read, is_mutual=False)
        for_certified = server_credentials(read, is_mutual=True)
        port = _open(
            "daemon.agents",
            self._config.agents,
            lambda address: server.add_secure_port(address, for_certified),
        )
        lifetime_s = self._config.certificate_s
        enrolling = EnrolmentService(
            self.authority, self.credentials, port=port, lifetime_s=lifetime_s
        )
        add_EnrolmentServicer_to_server(enrolling, server)
        return _open(
            "daemon.listen",
            self._config.daemon.listen,
            lambda address: server.add_secure_port(address, for_clients),
        )

    async def reserve_relay_port(self) -> None:
        """Reserve the relay's port until `close`. The relay of a daemon that was killed may have it
        for a moment. Raises ConfigError."""
        give_up_at = now() + RELAY_END_S
        while self._for_relay is None:
            try:
                self._for_relay = reserve("relay.listen", self._config.relay_listen)
            except ConfigError:
                if now() >= give_up_at:
                    raise
                await asyncio.sleep(RELAY_POLL_S)

    @property
    def relay_port(self) -> int:
        """Number of the port that is reserved for the relay."""
        assert self._for_relay is not None
        return int(self._for_relay.getsockname()[1])

    def interceptor(self) -> AuthInterceptor:
        """Create the interceptor that every call passes."""
        return AuthInterceptor(self.credentials, self.audit, self.call_queue, self._streams)

    def announce(self, address: str) -> None:
        """Announce the address on this machine, in the first administrator's credentials."""
        path = None if self.authority is None else self._write_administrator(address)
        self._announced = announce(address, credentials=path)

    async def run(self) -> None:
        """Renew the daemon's own certificate in time, until cancelled."""
        while self.authority is not None:
            await asyncio.sleep(RENEWAL_POLL_S)
            try:
                await asyncio.to_thread(self.authority.serving)
            except ConfigError as error:  # connections stay; the disk may have room later
                log.error("certificate.not_renewed", reason=str(error))  # noqa: TRY400 - the reason suffices

    def close(self) -> None:
        """Withdraw the announcement, close the audit log, and free the relay's port."""
        self.audit.close()
        if self._for_relay is not None:
            self._for_relay.close()
        if self._announced is not None:
            self._announced.unlink(missing_ok=True)

    def _write_administrator(self, address: str) -> Path:
        """Write the credentials of the account that runs the daemon.

        They are created if the file is missing, or if no administrator is left whom the daemon
        would authenticate.
        """
        assert self.authority is not None
        assert self.credentials is not None
        path = self.authority.folder / ADMINISTRATOR_FILE
        if path.exists() and self.credentials.has_administrator:
            known = read_credentials(path)
            trusted = self.authority.certificate
            if (known.address, known.authority) == (address, trusted):
                return path
            found = replace(known, address=address, authority=trusted)
        else:
            name = account()
            token = self.credentials.add_user(name, Role.ADMINISTRATOR, by=name)
            found = Credentials(
                address=address, user=name, token=token, authority=self.authority.certificate
            )
            log.info("administrator.created", user=name, credentials=str(path))
        write_private(path, credentials_text(found).encode())
        return path


def check_state(state_dir: Path) -> None:
    """Check that only this account can access a state directory. Raises ConfigError."""
    if not state_dir.exists():
        return
    check_private(state_dir)
    secrets = state_dir / FOLDER
    inner = list(secrets.iterdir()) if secrets.is_dir() else []
    for path in [*sorted(state_dir.iterdir()), *sorted(inner)]:
        if path == secrets or not path.is_dir():
            check_private(path)


def _open(key: str, address: str, add: Callable[[str], int]) -> int:
    check_free(key, address)  # before gRPC fails on it and logs by itself
    try:
        return add(address)
    except RuntimeError as error:
        raise cannot_listen(key, address) from error
