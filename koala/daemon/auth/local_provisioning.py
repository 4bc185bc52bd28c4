"""Certificates for sites whose agents run on the daemon's machine under the same account, before
either has started: a grid that one command runs needs no tokens to be carried about.

What is good already stays as it is, so that doing it again, beside a running daemon too, changes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from koala.daemon.auth.authority import Authority, is_due, read_certificate
from koala.daemon.auth.enrolments import Enrolments
from koala.errors import ConfigError
from koala.identity.keys import make_request
from koala.identity.private_files import private_folder
from koala.identity.tls import Identity
from koala_agent.link.enrolment import identity_path


def provision(state_dir: Path, sites: Mapping[str, Path], *, lifetime_s: float) -> None:
    """Enrol these sites with the daemon of `state_dir`, each with the state directory of its agent.
    Raises ConfigError, OSError."""
    authority = Authority.open(state_dir)
    enrolments = Enrolments(authority.folder)
    for site, folder in sites.items():
        path = identity_path(folder)
        if _is_good(path, authority, enrolments, site):
            continue
        private_folder(path.parent)
        key, request = make_request(site)
        made = authority.sign_site(site, request, lifetime_s=lifetime_s)
        enrolments.enrol(site, serial=made.serial, expires_at=made.expires_at)
        identity = Identity(key=key, certificate=made.pem, authority=authority.certificate)
        identity.write(path)


def _is_good(path: Path, authority: Authority, enrolments: Enrolments, site: str) -> bool:
    known = enrolments.sites.get(site)
    if known is None or not known.serial:
        return False
    try:
        found = Identity.read(path)
    except (FileNotFoundError, ConfigError):
        return False
    if found.authority != authority.certificate or is_due(found.certificate):
        return False
    return read_certificate(found.certificate).serial in (known.serial, known.next_serial)
