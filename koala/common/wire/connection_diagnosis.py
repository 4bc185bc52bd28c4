"""Diagnose a failed connection in words for a person.

gRPC tells a client little of a failed handshake. With TLS 1.3 a server refuses a client's
certificate after the client believes to be connected, and all that remains is "Socket closed". A
second connection by Python's own `ssl` receives the server's alert. It is made only after a
failure, and sends neither a request nor a secret.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from koala.common.identity.tls import Identity, is_issued_by

LIMIT_S = 3.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Cause of a failed connection.

    `is_refusal`: one side rejects the other, or they speak different protocols. Otherwise there is
    no answer, which may pass.
    """

    text: str
    is_refusal: bool


_ALERTS = {
    "CERTIFICATE_EXPIRED": "it refuses our certificate, which has expired",
    "UNKNOWN_CA": "it refuses our certificate, which was signed by another authority than its own",
    "CERTIFICATE_UNKNOWN": "it refuses our certificate",
    "BAD_CERTIFICATE": "it refuses our certificate, which is damaged",
    "UNSUPPORTED_CERTIFICATE": "it refuses our certificate, which was made for another purpose",
    "CERTIFICATE_REVOKED": "it refuses our certificate, which was revoked",
    "WRONG_VERSION_NUMBER": "it speaks no TLS: a daemon with `plain = true`, or another program",
    "HTTP_REQUEST": "it speaks no TLS: a daemon with `plain = true`, or another program",
    "UNSUPPORTED_PROTOCOL": "it speaks only TLS older than 1.2",
    "PROTOCOL_VERSION": "it speaks only TLS older than 1.2",
}
PAUSES_S = (0.0, 0.1, 0.5)
"""Pauses before the tries to get more than a closed connection."""
SILENT = Diagnosis(
    "it closed the connection at once; if that stays so, its log says why", is_refusal=False
)
NO_CERTIFICATE = "it wants a certificate, and we showed none"
_VERIFY = {
    10: "its certificate has expired",
    9: "its certificate is not valid yet: one of the two clocks is wrong",
    62: "its certificate is good, but not the daemon's: somebody else answers there",
}
_FOREIGN = "its certificate was signed by another authority than the one that is trusted here"


async def why_not(
    address: str,
    host: str,
    *,
    authority: bytes,
    identity: Identity | None = None,
    now: float | None = None,
) -> Diagnosis:
    """Diagnose a TLS connection to `address`; the text is empty when it works now.

    `now` is the other side's clock, as far as it is known: certificates are compared with it.
    """
    for pause_s in PAUSES_S:  # a refusal repeats; a connection that was cut does not
        await asyncio.sleep(pause_s)
        finding = await asyncio.to_thread(_try, address, host, authority, identity)
        if finding != SILENT:
            return finding
    # gRPC's servers do not say why they reject a certificate: check it here.
    said = NO_CERTIFICATE if identity is None else fault_of(identity, now)
    return Diagnosis(said, is_refusal=True) if said else SILENT


def fault_of(identity: Identity, now: float | None) -> str:
    """Return the reason for which any server would reject a certificate; empty if none is seen
    here.
    """
    from cryptography import x509  # noqa: PLC0415 - a client that is accepted never needs it

    try:
        own = x509.load_pem_x509_certificate(identity.certificate)
        trusted = x509.load_pem_x509_certificates(identity.authority)
        if not any(is_issued_by(own, authority) for authority in trusted):
            return _ALERTS["UNKNOWN_CA"]
        purposes = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except ValueError:
        return _ALERTS["UNKNOWN_CA"]
    except x509.ExtensionNotFound:
        return _ALERTS["UNSUPPORTED_CERTIFICATE"]
    if x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH not in purposes:
        return _ALERTS["UNSUPPORTED_CERTIFICATE"]
    if now is not None and now > own.not_valid_after_utc.timestamp():
        return _ALERTS["CERTIFICATE_EXPIRED"]
    if now is not None and now < own.not_valid_before_utc.timestamp():
        return "our certificate is not valid yet by its clock: one of the two clocks is wrong"
    return ""


async def speaks_tls(address: str) -> bool:
    """Return True if any server speaks TLS at the address."""
    # Without the authorities of this machine, whose loading takes longer than all the rest.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def handshake() -> bool:
        try:
            with _dial(address) as plain, context.wrap_socket(plain):
                return True
        except (OSError, ValueError):
            return False

    return await asyncio.to_thread(handshake)


def _try(address: str, host: str, authority: bytes, identity: Identity | None) -> Diagnosis:
    context = ssl.create_default_context(cadata=authority.decode("ascii", "replace"))
    context.set_alpn_protocols(["h2"])
    try:
        if identity is not None:
            _load(context, identity)
        with _dial(address) as plain, context.wrap_socket(plain, server_hostname=host) as secured:
            secured.settimeout(LIMIT_S)
            # A server that accepts us sends its settings first; one that does not, an alert.
            if not secured.recv(1):
                return SILENT
    except ssl.SSLCertVerificationError as error:
        return Diagnosis(_VERIFY.get(error.verify_code, _FOREIGN), is_refusal=True)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        # Cut in the handshake: a refusal would send an alert. Which error depends on Python.
        return Diagnosis("it closed the connection at once", is_refusal=False)
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        said = next((said for key, said in _ALERTS.items() if key in reason), f"TLS: {reason}")
        return Diagnosis(said, is_refusal=True)
    except TimeoutError:
        return Diagnosis("it does not answer", is_refusal=False)
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        return Diagnosis(f"it does not answer ({cause})", is_refusal=False)
    return Diagnosis("", is_refusal=False)


def _dial(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=LIMIT_S)


def _load(context: ssl.SSLContext, identity: Identity) -> None:
    """Load our certificate chain; `ssl` reads it from a file only, which is private and
    short-lived.
    """
    with tempfile.NamedTemporaryFile(prefix="koala-", suffix=".pem") as file:
        file.write(identity.key + identity.certificate)
        file.flush()
        context.load_cert_chain(Path(file.name))
