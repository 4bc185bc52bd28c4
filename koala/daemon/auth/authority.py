"""The daemon's certificate authority: its key, and the certificates that it signs.

It is small on purpose: one key, no intermediates, no revocation lists. The daemon knows which
certificates are good (`enrolments`) and looks at each call, so that a revoked one is refused at
once; for all others a certificate is good until it expires, which is why it expires soon.
Everything secret of a daemon lives in one folder, so that a backup that has it has all of it:

    STATE/authority/ca.pem               the authority's key and certificate
    STATE/authority/daemon.pem           the daemon's own, as a server; the relay's, too
    STATE/authority/enrolments.json      sites and users (`enrolments`); of secrets only hashes
    STATE/authority/administrator.toml   the first administrator's credentials
    STATE/authority/secret               the key of transfers' tokens (`recovery`)
    STATE/authority/rotation.json        while it is replaced: the old and the new one (`rotation`)

Keys are P-256: made and signed with in well under a millisecond, so a grid on one machine starts as
quickly with them as without.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import msgspec
import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from koala.daemon.clock import wall_s
from koala.errors import ConfigError, SpecError
from koala.identity.keys import SKEW_S, key_pem, renew_at
from koala.identity.private_files import private_folder, read_private, write_private
from koala.identity.tls import (
    DAEMON_HOST,
    Identity,
    Kind,
    SpoiltIdentityError,
    is_issued_by,
    site_host,
    uri_of,
)
from koala.runtime.disk_formats import ROTATION

FOLDER = "authority"
AUTHORITY_FILE = "ca.pem"
DAEMON_FILE = "daemon.pem"
ADMINISTRATOR_FILE = "administrator.toml"
ROTATION_FILE = "rotation.json"
AUTHORITY_S = 20 * 365 * 86_400.0
DAEMON_S = 365 * 86_400.0
REQUEST_BYTES_MAX = 16_384

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate that was signed: PEM, its number, and when it expires (epoch seconds)."""

    pem: bytes
    serial: str
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A client's certificate, as gRPC found it to be signed by the authority."""

    serial: str
    expires_at: float


class Stage(StrEnum):
    """Of a rotation: which of the two signs, the old or the new one."""

    SPREAD = "spread"
    MOVED = "moved"


class Rotation(msgspec.Struct, frozen=True, kw_only=True):
    """Two authorities are trusted; `old` and `new` are key and certificate, `since` when the stage
    began (wall clock)."""

    stage: Stage
    since: float
    old: str
    new: str
    format: int = 1


def read_rotation(folder: Path) -> Rotation | None:
    """The one under way. Raises ConfigError."""
    path = folder / ROTATION_FILE
    try:
        found = msgspec.json.decode(read_private(path), type=Rotation)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    if reason := ROTATION.refusal(found.format):
        raise ConfigError(f"{path}: {reason}")
    return found


class Authority:
    """Signs. `open` makes it at the first start. `certificate` is what is trusted, of two
    authorities during a rotation; `signer` that of the one which signs, the daemon's own, too."""

    def __init__(
        self,
        folder: Path,
        key: ec.EllipticCurvePrivateKey,
        own: x509.Certificate,
        *,
        also: bytes = b"",
    ) -> None:
        self.folder = folder
        self.signer = _pem(own)
        self.certificate = self.signer + also
        self._key = key
        self._own = own

    @classmethod
    def open(cls, state_dir: Path) -> Authority:
        """The authority of a state directory. Raises ConfigError."""
        folder = private_folder(state_dir / FOLDER)
        path = folder / AUTHORITY_FILE
        try:
            if not path.exists():
                write_private(path, make_authority())
            text, also = read_private(path), b""
            if (rotation := read_rotation(folder)) is not None:
                both = rotation.old.encode(), rotation.new.encode()
                text, other = both if rotation.stage is Stage.SPREAD else both[::-1]
                also = _certificate_in(other)
            key = serialization.load_pem_private_key(text, password=None)
            own = x509.load_pem_x509_certificate(_certificate_in(text))
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise ValueError("its key is of another kind than we make")  # noqa: TRY004
            if key.public_key() != own.public_key() or not is_issued_by(own, own):
                raise ValueError("its key and its certificate do not agree")
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: the authority cannot be used: {error}") from error
        return cls(folder, key, own, also=also)

    def serving(self) -> Path:
        """Where the daemon's own identity is: made when missing or spoilt, anew in its last third,
        and when it is of another authority. One that is good for a while stays where the new one
        cannot be written: a full disk ends no daemon. Raises ConfigError."""
        path = self.folder / DAEMON_FILE
        is_good = False
        try:
            found = Identity.read(path)
            is_ours = found.authority == self.certificate
            is_good = is_ours and read_certificate(found.certificate).expires_at > wall_s()
            if is_ours and not is_due(found.certificate):
                return path
        except FileNotFoundError:
            pass
        except SpoiltIdentityError as error:
            log.warning("certificate.spoilt", reason=str(error))  # nobody knows it but by its name
        key = ec.generate_private_key(ec.SECP256R1())
        extensions: tuple[x509.ExtensionType, ...] = (
            x509.SubjectAlternativeName([x509.DNSName(DAEMON_HOST)]),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        )
        made = self._sign("koala daemon", key.public_key(), DAEMON_S, extensions)
        own = Identity(key=key_pem(key), certificate=made.pem, authority=self.certificate)
        try:
            own.write(path)
        except OSError as error:
            if not is_good:
                raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
            log.warning("certificate.not_renewed", reason=error.strerror)
        return path

    def sign_site(self, site: str, request: str, *, lifetime_s: float) -> Certificate:
        """A site's certificate: it dials the daemon, and serves files. Raises SpecError."""
        extensions: tuple[x509.ExtensionType, ...] = (
            x509.SubjectAlternativeName(
                [
                    x509.DNSName(site_host(site)),
                    x509.UniformResourceIdentifier(uri_of(Kind.SITE, site)),
                ]
            ),
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
            ),
        )
        return self._sign(site, _public_key(request), lifetime_s, extensions)

    def sign_user(self, user: str, request: str, *, lifetime_s: float) -> Certificate:
        """A user's certificate: it calls, and serves nothing. Raises SpecError."""
        extensions: tuple[x509.ExtensionType, ...] = (
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri_of(Kind.USER, user))]),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]),
        )
        return self._sign(user, _public_key(request), lifetime_s, extensions)

    def _sign(
        self,
        name: str,
        public_key: ec.EllipticCurvePublicKey,
        lifetime_s: float,
        extensions: tuple[x509.ExtensionType, ...],
    ) -> Certificate:
        now = wall_s()
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
        made = builder.sign(self._key, hashes.SHA256())
        return Certificate(pem=_pem(made), serial=f"{serial:x}", expires_at=expires_at)


def read_certificate(pem: bytes) -> Shown:
    """What the daemon needs of a certificate that gRPC has verified."""
    found = x509.load_pem_x509_certificate(pem)
    expires_at = found.not_valid_after_utc.timestamp()
    return Shown(serial=f"{found.serial_number:x}", expires_at=expires_at)


def is_due(certificate: bytes) -> bool:
    """Whether the last third of its life has begun."""
    return wall_s() > renew_at(certificate)


def make_authority() -> bytes:
    """Key and certificate of a new one."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = wall_s()
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
    made = (
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
    return key_pem(key) + _pem(made)


def _public_key(request: str) -> ec.EllipticCurvePublicKey:
    """The key of a request that whoever asks has the private part of. Raises SpecError."""
    allowed = "allowed is a certificate signing request in PEM for a P-256 key, signed with it"
    if len(request) > REQUEST_BYTES_MAX:
        raise SpecError(f"request of {len(request)} characters: {allowed}")
    try:
        read = x509.load_pem_x509_csr(request.encode())
        key = read.public_key()
        is_signed = read.is_signature_valid
    except (ValueError, InvalidSignature) as error:
        raise SpecError(f"request: {allowed}") from error
    if not is_signed or not isinstance(key, ec.EllipticCurvePublicKey):
        raise SpecError(f"request: {allowed}")
    if not isinstance(key.curve, ec.SECP256R1):
        raise SpecError(f"request for a key on {key.curve.name}: {allowed}")
    return key


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _instant(at: float) -> datetime:
    return datetime.fromtimestamp(int(at), UTC)


def _certificate_in(text: bytes) -> bytes:
    return text[text.index(b"-----BEGIN CERTIFICATE") :]


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
