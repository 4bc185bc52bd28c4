"""Steps of `koala site connect` here; `tests/cli/local/test_connect.py` types the whole command."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.identity.tls import JoinToken
from koala.errors import ConfigError, UnreachableError
from koala_agent.connect.bring_up import agents_port
from koala_agent.connect.site_record import find, sites_folder
from tests.common.identity.stage import Forge
from tests.harness.ports import free_port


async def test_a_daemon_that_is_away_is_told_with_its_address(tmp_path: Path) -> None:
    authority = Forge(tmp_path).identity("x").authority
    address = f"127.0.0.1:{free_port()}"
    token = JoinToken(site="delft", address=address, secret="s-_s", authority=authority)
    with pytest.raises(UnreachableError, match=f"the daemon at {address} does not tell its port"):
        await agents_port(token)


def test_a_record_that_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (sites_folder() / "delft.json").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"delft.json cannot be read: .*connect the site again"):
        find("delft")
