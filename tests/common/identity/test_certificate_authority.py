"""The authority: shown, and replaced by a new one that sites and users must get to know."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from koala.cli.main import main
from koala.client import AsyncClient
from koala.common.identity.credentials import Credentials
from koala.daemon.auth.certificate_authority import CertificateAuthority
from koala.errors import UnauthenticatedError
from tests.common.identity.stage import Secured, secured

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
