"""The key of this agent for the connections of starters that carry: of this process alone."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from koala.common.identity.keys import key_pem

DATES = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


@cache
def agent_context() -> tuple[ssl.SSLContext, str]:
    """Make the key once; return the settings of the agent's end, and the certificate in hexadecimal
    digits. Nobody reads the certificate's name and dates."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, (begin, end) = x509.Name([]), DATES
    unsigned = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, end)
    certificate = unsigned.sign(key, hashes.SHA256())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    descriptor = os.memfd_create("key")  # OpenSSL takes a key from a file alone
    try:
        pem = serialization.Encoding.PEM
        os.write(descriptor, key_pem(key) + certificate.public_bytes(pem))
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context, certificate.public_bytes(serialization.Encoding.DER).hex()
