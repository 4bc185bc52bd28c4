"""Certificates for the sites of a grid on one machine: made once, left alone while they last."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.identity.tls import Identity, identity_path
from koala.daemon.auth.certificate_authority import CertificateAuthority, read_certificate
from koala.daemon.auth.credential_store import CredentialStore
from koala.daemon.auth.local_provisioning import provision

HOUR_S = 3_600.0


def shown(folder: Path, site: str = "delft") -> bytes:
    return identity_path(folder / site).read_bytes()


def enrolled(folder: Path) -> CredentialStore:
    return CredentialStore(folder / "daemon" / "authority")


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    again(tmp_path)
    return tmp_path


def again(folder: Path, *, lifetime_s: float = HOUR_S) -> None:
    sites = {site: folder / site for site in ("delft", "leiden")}
    provision(folder / "daemon", sites, lifetime_s=lifetime_s)


def test_each_site_is_enrolled_with_what_it_shows(grid: Path) -> None:
    for site in ("delft", "leiden"):
        found = Identity.read(identity_path(grid / site))
        record = enrolled(grid).check_site(site, read_certificate(found.certificate).serial)
        assert record.state == "enrolled"
        assert found.authority == CertificateAuthority.open(grid / "daemon").certificate
    assert shown(grid) != shown(grid, "leiden")


def test_doing_it_again_changes_nothing(grid: Path) -> None:
    before = [shown(grid), shown(grid, "leiden"), enrolled(grid).sites]
    again(grid)
    assert [shown(grid), shown(grid, "leiden"), enrolled(grid).sites] == before


@pytest.mark.parametrize("what", ["lost", "damaged", "superseded", "old", "of another authority"])
def test_what_is_not_good_is_made_again(tmp_path: Path, what: str) -> None:
    again(tmp_path, lifetime_s=-1.0 if what == "old" else HOUR_S)
    before = shown(tmp_path)
    path = identity_path(tmp_path / "delft")
    if what == "lost":
        path.unlink()
    elif what == "damaged":
        path.write_bytes(before[:100])
    elif what == "superseded":
        enrolled(tmp_path).enrol("delft", serial="abc", expires_at=9e9)
    elif what == "of another authority":
        (tmp_path / "daemon" / "authority" / "ca.pem").unlink()
    again(tmp_path)
    assert shown(tmp_path) != before
    found = Identity.read(path)
    enrolled(tmp_path).check_site("delft", read_certificate(found.certificate).serial)
