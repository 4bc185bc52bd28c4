"""TLS identities: certificates as both ends use them, and gRPC credentials made from them.

The daemon's own authority signs all certificates, and signs for nothing else. So the name in a
server's certificate says what it *is* (the daemon, a site's file server), independent of the host
name or address by which it was reached: `DAEMON_HOST`, `site_host(NAME)`. A client's certificate
has a URI, `koala://site/NAME`. Keys and certificates are made elsewhere
(`koala_agent.link`, `koala.daemon.auth.certificate_authority`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from koala.common.identity.private_files import read_private, write_private
from koala.errors import ConfigError

if TYPE_CHECKING:
    from cryptography import x509

DAEMON_HOST = "daemon.koala.invalid"
_SITE_URI = re.compile(r"koala://site/([A-Za-z0-9._@-]+)")
_LOOPBACK = re.compile(r"127\.\d{1,3}\.\d{1,3}\.\d{1,3}")
_BLOCK = re.compile(rb"-----BEGIN (?P<kind>[A-Z ]+)-----.*?-----END (?P=kind)-----\n?", re.DOTALL)
_JOIN = "koala-join"
_INVITATION = "koala-user"
_LINE_VERSION = "1"

ServerCredentials = grpc.ServerCredentials
Options = tuple[tuple[str, str | int], ...]


class InvalidIdentityError(ConfigError):
    """Key, certificate and authority do not match or cannot be read; the message says why."""


def site_host(site: str) -> str:
    """Return the name in the certificate of a site's file server.

    It is a hash, because a site's name may be longer than a host's, and host names ignore case.
    """
    import hashlib  # noqa: PLC0415 - a client needs no site's file server

    return f"{hashlib.sha256(site.encode()).hexdigest()[:32]}.site.koala.invalid"


def site_uri(site: str) -> str:
    """Return the URI in a site's certificate."""
    return f"koala://site/{site}"


def site_of_uri(uri: str) -> str | None:
    """Return the site that a URI names; None for any other URI."""
    match = _SITE_URI.fullmatch(uri)
    return None if match is None else match[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Private key, its certificate, and the trusted authority that signed it: all PEM."""

    key: bytes = field(repr=False)
    certificate: bytes
    authority: bytes

    def text(self) -> bytes:
        """Concatenate all three as one file has them, so that one rename replaces all or none."""
        return self.key + self.certificate + self.authority

    @classmethod
    def parse(cls, text: bytes, *, source: str) -> Identity:
        """Parse such a text, and check that the parts match.

        TLS's own errors for a damaged file are of no use to a person. Raises InvalidIdentityError.
        """
        blocks = [(match["kind"], match.group()) for match in _BLOCK.finditer(text)]
        kinds = [kind for kind, _ in blocks]
        allowed = [b"PRIVATE KEY", *[b"CERTIFICATE"] * max(2, len(kinds) - 1)]
        if kinds != allowed:
            raise InvalidIdentityError(
                f"{source}: wrong contents (expected a private key, its certificate and its"
                " authority's, in PEM)"
            )
        key, certificate, *trusted = (block for _, block in blocks)
        authority = b"".join(trusted)  # two while the daemon's authority is replaced
        try:
            return _loaded(key, certificate, authority)
        except ValueError as error:
            raise InvalidIdentityError(f"{source}: {error}") from error

    @classmethod
    def read(cls, path: Path) -> Identity:
        """Read an identity from a private file.

        Raises ConfigError, InvalidIdentityError for the contents, FileNotFoundError.
        """
        return cls.parse(read_private(path), source=str(path))

    def write(self, path: Path) -> None:
        """Write the identity to a private file. Raises OSError."""
        write_private(path, self.text())


def _loaded(key: bytes, certificate: bytes, authority: bytes) -> Identity:
    """Load the three and encode them again, since gRPC's PEM parser is stricter than ours.

    Raises ValueError, which says why they do not match.
    """
    from cryptography import x509  # noqa: PLC0415 - a client with a token never needs it
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    what = "the private key"
    try:
        private = serialization.load_pem_private_key(key, password=None)
        what = "the certificate"
        own = x509.load_pem_x509_certificate(certificate)
        certified = own.public_key()
        what = "the authority's certificate"
        trusted = x509.load_pem_x509_certificates(authority)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"{what} cannot be read: {error}") from error
    if private.public_key() != certified:
        raise ValueError("the private key is not that of the certificate")
    if not all(is_issued_by(root, root) for root in trusted):
        raise ValueError("the authority's certificate was changed since it was made")
    if not any(is_issued_by(own, root) for root in trusted):
        text = "the certificate was not signed by the authority beside it, or was changed since"
        raise ValueError(text)
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return Identity(
        key=private.private_bytes(pem, form, plain),
        certificate=own.public_bytes(pem),
        authority=b"".join(root.public_bytes(pem) for root in trusted),
    )


def is_issued_by(own: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return True if an authority has signed the certificate as it is."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    try:
        own.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def identity_path(state_dir: Path) -> Path:
    """Return the path of a site's identity below its agent's state directory."""
    return state_dir / "identity" / "site.pem"


class IdentityFile:
    """An identity that is read again after its file was replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: Identity | None = None
        self._stamp: tuple[int, int] | None = None

    def read(self) -> Identity:
        """Return the newest identity. Raises ConfigError, FileNotFoundError."""
        status = self.path.stat()
        stamp = (status.st_ino, status.st_mtime_ns)
        if self._known is None or stamp != self._stamp:
            self._known = Identity.read(self.path)
            self._stamp = stamp
        return self._known


# --- credentials of gRPC --------------------------------------------------------------------------


def secure_channel(
    address: str, host: str, *, authority: bytes, identity: Identity | None = None,
    options: Options,
) -> grpc.aio.Channel:  # fmt: skip
    """Open a channel to the server whose certificate has the name `host`, at any address."""
    credentials = grpc.ssl_channel_credentials(
        authority,
        None if identity is None else identity.key,
        None if identity is None else identity.certificate,
    )
    named = (*options, ("grpc.ssl_target_name_override", host))
    return grpc.aio.secure_channel(address, credentials, options=named)


def server_credentials(
    identity: Callable[[], Identity], *, is_mutual: bool
) -> grpc.ServerCredentials:
    """Make the credentials of a server.

    The identity is read at each new connection, so that a certificate can be renewed while it
    serves. When mutual, the handshake fails for a client without a certificate of the same
    authority.
    """

    def configuration() -> grpc.ServerCertificateConfiguration:
        now = identity()
        pairs = [(now.key, now.certificate)]
        return grpc.ssl_server_certificate_configuration(pairs, root_certificates=now.authority)

    last = identity()

    def renewed() -> grpc.ServerCertificateConfiguration:
        nonlocal last
        now = identity()
        if now is last:
            return None  # type: ignore[return-value] # None is "as before"; the stubs do not know
        last = now
        return configuration()

    return grpc.dynamic_ssl_server_credentials(
        configuration(), renewed, require_client_authentication=is_mutual
    )


def is_loopback(address: str) -> bool:
    """Return True if host:port can only be reached from this machine."""
    host = address.rpartition(":")[0].strip("[]")
    return host in ("localhost", "::1") or bool(_LOOPBACK.fullmatch(host))


# --- tokens that work once ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    """Token that an operator gives to a site once: the daemon's address, its authority, and a
    secret.

    It carries the authority's whole certificate, not its fingerprint: gRPC trusts certificates, and
    fetching one to compare it would need an unauthenticated connection.
    """

    site: str
    address: str
    secret: str = field(repr=False)
    authority: bytes

    def text(self) -> str:
        """Encode the token as one line of printable characters."""
        return _line(_JOIN, self.site, self.address, self.secret, self.authority)

    @classmethod
    def parse(cls, text: str) -> JoinToken:
        """Parse a token. Raises ConfigError, which does not show it."""
        site, address, secret, authority = _parts(_JOIN, text, "join token", "koala site add")
        return cls(site=site, address=address, secret=secret, authority=authority)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """Token that an administrator gives to a user once, with all that the user's client needs."""

    user: str
    address: str
    token: str = field(repr=False)
    authority: bytes

    def text(self) -> str:
        """Encode the invitation as one line of printable characters."""
        return _line(_INVITATION, self.user, self.address, self.token, self.authority)

    @classmethod
    def parse(cls, text: str) -> Invitation:
        """Parse an invitation. Raises ConfigError, which does not show it."""
        parts = _parts(_INVITATION, text, "invitation", "koala user invite")
        user, address, token, authority = parts
        return cls(user=user, address=address, token=token, authority=authority)


def _line(kind: str, name: str, address: str, secret: str, authority: bytes) -> str:
    body = "".join(authority.decode().splitlines()[1:-1])
    return "|".join((kind, _LINE_VERSION, name, address, secret, body))


def _parts(kind: str, text: str, what: str, made_by: str) -> tuple[str, str, str, bytes]:
    """Return name, address, secret and authority of such a line. Raises ConfigError."""
    parts = text.strip().split("|")
    if len(parts) != 6 or parts[0] != kind or not text.strip().isascii():
        raise ConfigError(
            f"this is not a {what}: it has {len(text.strip())} characters (expected one line that"
            f" begins with {kind}|, as `{made_by}` prints it)"
        )
    if parts[1] != _LINE_VERSION:
        raise ConfigError(f"{what} of version {parts[1][:20]!r} (expected {_LINE_VERSION})")
    _, _, name, address, secret, body = parts
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    pem = ["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""]
    return name, address, secret, "\n".join(pem).encode()
