"""The authority: shown, and replaced by a new one that sites and users must get to know."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from koala.cli.main import main
from koala.client import AsyncClient
from koala.daemon.auth.certificate_authority import CertificateAuthority
from koala.errors import ConfigError, UnauthenticatedError
from koala.identity.credentials import Credentials
from koala.identity.tls import Identity
from tests.identity.stage import Forge, Secured, secured

pytestmark = pytest.mark.live


async def is_served(stage: Secured, shown: Credentials) -> bool:
    async with AsyncClient(
        stage.address, credentials=replace(shown, address=stage.address)
    ) as client:
        return await client.list_jobs() == []


async def test_tokens_outlive_their_authority(tmp_path: Path) -> None:
    """Users need the new certificate beside their token, and no new token."""
    async with secured(tmp_path) as stage:
        ann = await stage.user("ann")
        assert await is_served(stage, ann)
    (tmp_path / "state" / "authority" / "ca.pem").unlink()
    async with secured(tmp_path) as stage:
        assert stage.authority != ann.authority
        with pytest.raises(UnauthenticatedError, match="another authority"):
            await is_served(stage, ann)
        assert await is_served(stage, replace(ann, authority=stage.authority))


def test_the_command_shows_expiry_and_fingerprint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = CertificateAuthority.open(tmp_path / "state")
    assert main(["authority", "show", str(tmp_path / "state")]) == 0
    said = capsys.readouterr().out
    assert made.document()["fingerprint"] in said
    assert "expires      20" in said
    assert main(["authority", "show", str(tmp_path / "state"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["certificate"].encode() == made.certificate
    assert main(["authority", "show", str(tmp_path / "other")]) == 2
    assert not (tmp_path / "other").exists()


def test_a_replacement_that_an_earlier_release_began_is_refused_with_a_remedy(
    tmp_path: Path,
) -> None:
    before = CertificateAuthority.open(tmp_path).certificate
    path = tmp_path / "authority" / "rotation.json"
    path.write_text("{}")
    with pytest.raises(ConfigError, match=r"remove this file: then the authority of ca\.pem stays"):
        CertificateAuthority.open(tmp_path)
    path.unlink()
    assert CertificateAuthority.open(tmp_path).certificate == before


def test_an_identity_may_trust_two_authorities(tmp_path: Path) -> None:
    """Earlier releases wrote such files while they replaced an authority."""
    old, new = (CertificateAuthority.open(tmp_path / name).certificate for name in ("old", "new"))
    made = Forge(tmp_path / "new").identity("delft")
    key, certificate = made.key, made.certificate
    identity = replace(made, authority=old + new)
    identity.write(tmp_path / "site.pem")
    assert Identity.read(tmp_path / "site.pem") == identity
    for wrong in (key, key + certificate, certificate * 3, key + certificate + key + certificate):
        with pytest.raises(ConfigError, match="allowed are a private key"):
            Identity.parse(wrong, source="x")
