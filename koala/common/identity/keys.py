"""Make private keys (P-256, in less than a millisecond) and certificate signing requests."""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

SKEW_S = 300.0
"""Certificates are valid from so long before they are made: clocks differ."""


def make_request(name: str) -> tuple[bytes, str]:
    """Make a private key and a signing request for it, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])
    unsigned = x509.CertificateSigningRequestBuilder().subject_name(subject)
    request = unsigned.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    return key_pem(key), request.public_bytes(pem).decode()


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Encode a private key in PEM without a password; the file's mode protects it."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def expires_at(certificate: bytes) -> float:
    """Return the end of a certificate's validity, epoch seconds."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()


def renew_at(certificate: bytes) -> float:
    """Return the instant of renewal, when the last third of a certificate's lifetime begins."""
    parsed = x509.load_pem_x509_certificate(certificate)
    ends = parsed.not_valid_after_utc.timestamp()
    issued_at = parsed.not_valid_before_utc.timestamp() + SKEW_S
    return ends - (ends - issued_at) / 3
