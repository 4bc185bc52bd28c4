"""The daemon's certificate authority: its key, and the certificates that it signs.

Small on purpose: one key, no intermediates, no revocation lists. The daemon checks the certificate
of each call against `credential_store`, so a revoked one is refused at once. For all other
parties a certificate is valid until it expires, so lifetimes are short. All secrets of a daemon
are in one folder, so that one backup covers them:

    STATE/authority/ca.pem               the authority's key and certificate
    STATE/authority/daemon.pem           the daemon's own, as a server; the relay's, too
    STATE/authority/enrolments.json      `credential_store`; of secrets only hashes
    STATE/authority/administrator.toml   the first administrator's credentials
    STATE/authority/secret               the key of transfers' tokens (`recovery`)

Keys are P-256: a key or a signature takes well under a millisecond, so they do not slow the start
of a grid on one machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from koala.common.identity.keys import SKEW_S, key_pem, renew_at
from koala.common.identity.private_files import private_folder, read_private, write_private
from koala.common.identity.tls import (
    DAEMON_HOST,
    Identity,
    InvalidIdentityError,
    is_issued_by,
    site_host,
    site_uri,
)
from koala.common.runtime.clock import unix_now
from koala.common.runtime.structured_log import get_logger
from koala.errors import ConfigError, SpecError

FOLDER = "authority"
AUTHORITY_FILE = "ca.pem"
DAEMON_FILE = "daemon.pem"
ADMINISTRATOR_FILE = "administrator.toml"
AUTHORITY_S = 20 * 365 * 86_400.0
DAEMON_S = 365 * 86_400.0
REQUEST_BYTES_MAX = 16_384

log = get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Certificate: PEM, serial number, and expiry (epoch seconds)."""

    pem: bytes
    serial: str
    expires_at: float


class AuthorityDocument(TypedDict):
    """The authority, as `koala admin authority show --json` prints it."""

    expires_at: float
    fingerprint: str
    certificate: str


class CertificateAuthority:
    """Certificate authority of a daemon; `certificate` is its own one, in PEM."""

    def __init__(
        self, folder: Path, key: ec.EllipticCurvePrivateKey, own: x509.Certificate
    ) -> None:
        self.folder = folder
        self.certificate = _pem(own)
        self._key = key
        self._own = own

    @classmethod
    def open(cls, state_dir: Path) -> CertificateAuthority:
        """Open a state directory's authority; the first start creates it. Raises ConfigError."""
        folder = private_folder(state_dir / FOLDER)
        path = folder / AUTHORITY_FILE
        try:
            if not path.exists():
                write_private(path, make_authority())
            text = read_private(path)
            key = serialization.load_pem_private_key(text, password=None)
            own = x509.load_pem_x509_certificate(text[text.index(b"-----BEGIN CERTIFICATE") :])
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise ValueError("its key is of another kind than we make")  # noqa: TRY004
            if key.public_key() != own.public_key() or not is_issued_by(own, own):
                raise ValueError("its key and its certificate do not agree")
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: the authority cannot be used: {error}") from error
        return cls(folder, key, own)

    def document(self) -> AuthorityDocument:
        """Return expiry, fingerprint and certificate for documents."""
        return {
            "expires_at": self._own.not_valid_after_utc.timestamp(),
            "fingerprint": self._own.fingerprint(hashes.SHA256()).hex(":"),
            "certificate": self.certificate.decode(),
        }

    def serving(self) -> Path:
        """Return the path of the daemon's own identity; issue a new one where that is due.

        It is issued when missing or damaged, in the last third of its lifetime, and after a change
        of authority. If the new one cannot be written, one that is still valid stays in use: a full
        disk must not end the daemon. Raises ConfigError.
        """
        path = self.folder / DAEMON_FILE
        is_good = False
        try:
            identity = Identity.read(path)
            is_ours = identity.authority == self.certificate
            is_good = is_ours and read_certificate(identity.certificate).expires_at > unix_now()
            if is_ours and not is_due(identity.certificate):
                return path
        except FileNotFoundError:
            pass
        except InvalidIdentityError as error:
            log.warning("certificate.unusable", reason=str(error))  # clients check only its name
        key = ec.generate_private_key(ec.SECP256R1())
        extensions: tuple[x509.ExtensionType, ...] = (
            x509.SubjectAlternativeName([x509.DNSName(DAEMON_HOST)]),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        )
        certificate = self._sign("koala daemon", key.public_key(), DAEMON_S, extensions)
        own = Identity(key=key_pem(key), certificate=certificate.pem, authority=self.certificate)
        try:
            own.write(path)
        except OSError as error:
            if not is_good:
                raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
            log.warning("certificate.not_renewed", reason=error.strerror)
        return path

    def sign_site(self, site: str, request: str, *, lifetime_s: float) -> Certificate:
        """Sign a site's certificate, for a TLS client and a file server. Raises SpecError."""
        extensions: tuple[x509.ExtensionType, ...] = (
            x509.SubjectAlternativeName(
                [
                    x509.DNSName(site_host(site)),
                    x509.UniformResourceIdentifier(site_uri(site)),
                ]
            ),
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
            ),
        )
        return self._sign(site, _public_key(request), lifetime_s, extensions)

    def _sign(
        self,
        name: str,
        public_key: ec.EllipticCurvePublicKey,
        lifetime_s: float,
        extensions: tuple[x509.ExtensionType, ...],
    ) -> Certificate:
        now = unix_now()
        serial = x509.random_serial_number()
        expires_at = float(int(now + lifetime_s))
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(self._own.subject)
            .public_key(public_key)
            .serial_number(serial)
            .not_valid_before(_instant(now - SKEW_S))
            .not_valid_after(_instant(expires_at))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Certificate(pem=_pem(certificate), serial=f"{serial:x}", expires_at=expires_at)


def read_certificate(pem: bytes) -> Certificate:
    """Read the serial number and expiry of a certificate that gRPC has verified."""
    certificate = x509.load_pem_x509_certificate(pem)
    expires_at = certificate.not_valid_after_utc.timestamp()
    return Certificate(pem=pem, serial=f"{certificate.serial_number:x}", expires_at=expires_at)


def is_due(certificate: bytes) -> bool:
    """Return True in the last third of a certificate's lifetime: it must be renewed."""
    return unix_now() > renew_at(certificate)


def make_authority() -> bytes:
    """Create a new authority: its key and certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = unix_now()
    name = _name("koala authority")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_instant(now - SKEW_S))
        .not_valid_after(_instant(now + AUTHORITY_S))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return key_pem(key) + _pem(certificate)


def _public_key(request: str) -> ec.EllipticCurvePublicKey:
    """Extract the key of a signing request that its private key has signed. Raises SpecError."""
    expected = "expected a certificate signing request in PEM for a P-256 key, signed with it"
    if len(request) > REQUEST_BYTES_MAX:
        raise SpecError(f"request of {len(request)} characters ({expected})")
    try:
        read = x509.load_pem_x509_csr(request.encode())
        key = read.public_key()
        is_signed = read.is_signature_valid
    except (ValueError, InvalidSignature) as error:
        raise SpecError(f"request cannot be used ({expected})") from error
    if not is_signed or not isinstance(key, ec.EllipticCurvePublicKey):
        raise SpecError(f"request cannot be used ({expected})")
    if not isinstance(key.curve, ec.SECP256R1):
        raise SpecError(f"request for a key on {key.curve.name} ({expected})")
    return key


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _instant(at: float) -> datetime:
    return datetime.fromtimestamp(int(at), UTC)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
