"""A daemon that speaks TLS, and certificates good and bad, for tests of identity.

The authority of a daemon under test is at hand as files, so that certificates can be made that no
daemon would make: too old, too young, of another authority, for another purpose.
"""

from __future__ import annotations

import json
import ssl
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from koala.client import AsyncClient
from koala.common.identity.credentials import Credentials, read_credentials
from koala.common.identity.keys import key_pem, make_request
from koala.common.identity.tls import DAEMON_HOST, Identity, JoinToken, secure_channel, site_uri
from koala.common.protocol.versions import PROTOCOL
from koala.common.wire.status import PROTOCOL_KEY
from koala.common.wire.v1.identity_pb2 import Issued, JoinRequest, WhereRequest
from koala.common.wire.v1.identity_pb2_grpc import EnrolmentStub
from koala.daemon.auth.audit import FILE
from koala.daemon.auth.certificate_authority import CertificateAuthority
from koala.daemon.config import Config
from koala.daemon.lifecycle import Daemon
from tests.daemon.running import config_of, running

CALLS = ((PROTOCOL_KEY, str(PROTOCOL)),)
LIMIT_S = 60.0


class Secured:
    """A daemon that serves, and its administrator's credentials."""

    def __init__(self, daemon: Daemon, config: Config) -> None:
        self.daemon = daemon
        self.config = config
        self.address = daemon.address
        path = config.state_dir / "authority" / "administrator.toml"
        self.administrator = read_credentials(path)
        self.authority = self.administrator.authority

    def client(self, credentials: Credentials | None = None) -> AsyncClient:
        """The administrator's client, or somebody else's."""
        return AsyncClient(self.address, credentials=credentials or self.administrator)

    async def user(self, name: str, role: str = "user", *, expires_s: float = 0.0) -> Credentials:
        """A new user with a token."""
        async with self.client() as client:
            made = await client.add_user(name, role=role, expires_s=expires_s)
        return replace(self.administrator, user=name, token=made["token"])

    async def token(self, site: str, *, ttl_s: float = 0.0) -> JoinToken:
        """A new join token."""
        async with self.client() as client:
            return JoinToken.parse((await client.add_site(site, ttl_s=ttl_s))["token"])

    async def site(self, name: str) -> Identity:
        """A site that has joined."""
        return await self.joined(await self.token(name))

    async def joined(self, token: JoinToken, *, site: str = "") -> Identity:
        """Use a token; as the site that it is for, or another one."""
        key, request = make_request(token.site)
        channel = secure_channel(self.address, DAEMON_HOST, authority=token.authority, options=())
        message = JoinRequest(site=site or token.site, secret=token.secret, request=request)
        async with channel:
            issued = await EnrolmentStub(channel).Join(message, timeout=LIMIT_S)
        return identity_of(key, issued)

    async def certified_address(self) -> str:
        """Return the address that callers with a certificate dial."""
        channel = secure_channel(self.address, DAEMON_HOST, authority=self.authority, options=())
        async with channel:
            where = await EnrolmentStub(channel).Where(WhereRequest(), timeout=LIMIT_S)
        return f"127.0.0.1:{where.port}"

    @asynccontextmanager
    async def channel(self, identity: Identity | None) -> AsyncIterator[grpc.aio.Channel]:
        """A channel with this certificate to the port for them; None: to the other port."""
        address = self.address if identity is None else await self.certified_address()
        channel = secure_channel(
            address, DAEMON_HOST, authority=self.authority, identity=identity, options=()
        )
        async with channel:
            yield channel

    def log(self, name: str = FILE) -> list[dict[str, str]]:
        """The audit log, from its file; or that of strangers."""
        path = self.config.state_dir / name
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]


@asynccontextmanager
async def secured(folder: Path, keys: str = "", more: str = "") -> AsyncIterator[Secured]:
    """A daemon with TLS in this process; `keys` are more of its own table, `more` more tables."""
    config = config_of(folder, more, is_plain=False, daemon=keys)
    async with running(config) as daemon:
        yield Secured(daemon, config)


def identity_of(key: bytes, issued: Issued) -> Identity:
    """Return the identity of a site that has joined."""
    return Identity(
        key=key, certificate=issued.certificate.encode(), authority=issued.authority.encode()
    )


class Forge:
    """An authority that signs anything: the daemon's own, by its files, or a foreign one."""

    def __init__(self, state_dir: Path) -> None:
        self._authority = CertificateAuthority.open(state_dir)
        text = (state_dir / "authority" / "ca.pem").read_bytes()
        key = serialization.load_pem_private_key(text, password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key
        self._own = x509.load_pem_x509_certificate(text[text.index(b"-----BEGIN CERT") :])

    def identity(
        self,
        name: str,
        *,
        uri: str = "",
        from_s: float = -300.0,
        until_s: float = 3600.0,
        purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
        host: str = "a.host.invalid",
    ) -> Identity:
        """A certificate that is good from so many seconds after now until so many."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.fromtimestamp(time.time(), UTC)
        names = [x509.UniformResourceIdentifier(uri or site_uri(name)), x509.DNSName(host)]
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._own.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(seconds=from_s))
            .not_valid_after(now + timedelta(seconds=until_s))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Identity(
            key=key_pem(key),
            certificate=made.public_bytes(serialization.Encoding.PEM),
            authority=self._authority.certificate,
        )


def old_tls() -> ssl.SSLContext:
    """A client that speaks nothing newer than TLS 1.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context
