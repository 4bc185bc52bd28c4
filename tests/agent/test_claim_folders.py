"""The claims' folders of a site: the starter among them is whole for each claim."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from koala.common.protocol.names import ClaimId
from koala_agent.claim_folders import ClaimFolders
from koala_agent.claims.settings import LeaseTimes
from koala_agent.claims.states import Asked, Claim
from koala_agent.lrm.local_manager import Placeholder
from koala_agent.placeholders import starter_installation
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.placeholders.submission import Preparation
from tests.agent.site import a_hold, a_shell_hold


def change(path: Path) -> None:
    """Write as many bytes as there were, at the time of the file's last change."""
    before = path.stat()
    path.write_bytes(bytes(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("damage", [change, Path.unlink])
def test_a_claim_gets_a_whole_starter_whatever_became_of_the_installed_one(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    """It is read again after any change of its files, and not for each claim."""
    folders = ClaimFolders(LaunchSettings(root=tmp_path, site="delft"))
    folders.install()
    hold = a_hold()
    claim = Claim(hold=hold, secret="s", state=Asked(grace_until=0.0))

    def prepare() -> None:
        order = Preparation(claim=claim, port=1, leases=LeaseTimes())
        (placeholder,) = folders.prepare([order])
        assert isinstance(placeholder, Placeholder)

    prepare()
    (driver,) = tmp_path.glob(".starter/*/koala_agent/starter/driver.pyc")
    whole = driver.read_bytes()
    damage(driver)
    prepare()
    assert driver.read_bytes()[16:] == whole[16:]  # without the head, which has a date
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} is read"))
        prepare()


def test_claims_of_one_call_share_a_look_at_the_starter_and_not_their_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[starter_installation.Stamps] = []
    stamps_of = starter_installation.stamps_of

    def noted(settings: LaunchSettings, command: tuple[str, ...]) -> starter_installation.Stamps:
        looks.append(stamps_of(settings, command))
        return looks[-1]

    monkeypatch.setattr(starter_installation, "stamps_of", noted)
    folders = ClaimFolders(LaunchSettings(root=tmp_path, site="delft"))
    folders.install()
    claims = [f"j{number}/1/0/1" for number in range(3)]
    folders.folder(ClaimId(claims[1])).write_text("in the way")
    orders = [
        Preparation(
            claim=Claim(hold=a_shell_hold("true", claim), secret="s", state=Asked(grace_until=0.0)),
            port=1,
            leases=LeaseTimes(),
        )
        for claim in claims
    ]
    first, second, third = folders.prepare(orders)
    assert isinstance(first, Placeholder)
    assert isinstance(second, OSError)
    assert isinstance(third, Placeholder)
    assert [first.claim, third.claim] == [claims[0], claims[2]]
    assert len(looks) == 1
