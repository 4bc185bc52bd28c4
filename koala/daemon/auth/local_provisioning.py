"""Certificates for sites whose agents run on the daemon's machine under the same account.

They are issued before daemon and agents start, so a grid run by one command needs no join tokens.
Idempotent: valid certificates stay, also beside a running daemon.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from koala.common.identity.keys import make_request
from koala.common.identity.private_files import private_folder
from koala.common.identity.tls import Identity, identity_path
from koala.daemon.auth.certificate_authority import CertificateAuthority, is_due, read_certificate
from koala.daemon.auth.credential_store import CredentialStore
from koala.errors import ConfigError


def provision(state_dir: Path, sites: Mapping[str, Path], *, lifetime_s: float) -> None:
    """Enrol sites with the daemon of `state_dir`; `sites` maps each to its agent's state directory.

    Raises ConfigError, OSError.
    """
    authority = CertificateAuthority.open(state_dir)
    credentials = CredentialStore(authority.folder)
    for site, folder in sites.items():
        path = identity_path(folder)
        if _is_good(path, authority, credentials, site):
            continue
        private_folder(path.parent)
        key, request = make_request(site)
        certificate = authority.sign_site(site, request, lifetime_s=lifetime_s)
        credentials.enrol(site, serial=certificate.serial, expires_at=certificate.expires_at)
        identity = Identity(key=key, certificate=certificate.pem, authority=authority.certificate)
        identity.write(path)


def _is_good(
    path: Path, authority: CertificateAuthority, credentials: CredentialStore, site: str
) -> bool:
    known = credentials.sites.get(site)
    if known is None or not known.serial:
        return False
    try:
        identity = Identity.read(path)
    except (FileNotFoundError, ConfigError):
        return False
    if identity.authority != authority.certificate or is_due(identity.certificate):
        return False
    return read_certificate(identity.certificate).serial in (known.serial, known.next_serial)
