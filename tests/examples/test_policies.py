"""The example of policies from outside, found by its entry points as an installed package is."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.common.runtime.foreign.guards import Guarded
from koala.daemon.config import parse_config
from tests.examples.stage import EXAMPLES
from tests.harness.installation import write_installation

PACKAGE = EXAMPLES / "policies"
DAEMON = '[daemon]\nstate_dir = "state"\n[policies]\nplacement = "{}"\n'


def install(folder: Path, more: dict[str, str] | None = None) -> str:
    """Write what an installation leaves for Python to find; returns the path to look in."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = {**project["entry-points"]["koala.policies"], **(more or {})}
    write_installation(folder, project["name"], project["version"], "koala.policies", points)
    return os.pathsep.join((str(PACKAGE), str(folder)))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    gone = {
        "placement.gone": "koala_policies_example.placement:gone",
        "placement.no": "json:__name__",
    }
    for path in install(tmp_path, gone).split(os.pathsep):
        monkeypatch.syspath_prepend(path)
    yield
    for name in [name for name in sys.modules if name.startswith("koala_policies_example")]:
        del sys.modules[name]


@pytest.mark.usefixtures("installed")
def test_a_daemon_finds_it_by_name_and_guards_it(tmp_path: Path) -> None:
    config = parse_config(DAEMON.format("best-fit"), source="test.toml", folder=tmp_path)
    assert isinstance(config.policies.place, Guarded)
    assert ("placement", "best-fit") in config.policy_names
