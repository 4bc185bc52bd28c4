"""Recipes for Spack, EasyBuild and compose: they say what pyproject.toml says, and parse."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
import venv
from pathlib import Path

import pytest
import yaml

from tests.tidy.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EASYCONFIG = next((ROOT / "deploy" / "easybuild").glob("*.eb"))
SPACK = ROOT / "deploy" / "spack" / "packages" / "koala_scheduler" / "package.py"
READ = """
import sys
from easybuild.framework.easyconfig.default import DEFAULT_CONFIG
from easybuild.framework.easyconfig.parser import EasyConfigParser
from easybuild.easyblocks.generic.pythonpackage import PythonPackage
from easybuild.tools.build_log import EasyBuildError
from easybuild.tools.options import set_up_configuration
try:
    set_up_configuration(args=["--allow-use-as-root-and-accept-consequences"], silent=True)
except EasyBuildError:
    pass  # no environment modules on this machine, which only a build needs
found = EasyConfigParser(sys.argv[1]).get_config_dict()
known = {*DEFAULT_CONFIG, *PythonPackage.extra_options()}
print(found["name"], found["version"], sorted(set(found) - known))
"""


def needed(requirement: str) -> tuple[str, str]:
    """Name and least version of a requirement."""
    found = re.fullmatch(r"([A-Za-z_-]+)>=([0-9.]+)", requirement)
    assert found, requirement
    return found[1].lower(), found[2]


def test_the_package_for_spack_has_the_version_and_the_dependencies() -> None:
    calls = [
        node for node in ast.walk(ast.parse(SPACK.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]  # fmt: skip
    said: dict[str, list[ast.Call]] = {}
    for call in calls:
        assert isinstance(call.func, ast.Name)
        said.setdefault(call.func.id, []).append(call)
    (version,) = [ast.literal_eval(call.args[0]) for call in said["version"]]
    assert version == PROJECT["version"]
    specs = {}
    for call in said["depends_on"]:
        name, least = re.fullmatch(
            r"(?:py-)?([a-z-]+)@([0-9.]+):", ast.literal_eval(call.args[0])
        ).groups()  # type: ignore[union-attr]
        specs[name] = least
    wanted = dict(map(needed, [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["sim"]]))
    wanted["python"] = PROJECT["requires-python"].removeprefix(">=")
    assert {name: least for name, least in specs.items() if name != "hatchling"} == wanted


def test_the_easyconfig_has_the_version_and_the_archive_of_a_release() -> None:
    assert EASYCONFIG.name.startswith(f"{PROJECT['name']}-{PROJECT['version']}-GCCcore-")
    values: dict[str, object] = {}
    exec(EASYCONFIG.read_text(encoding="utf-8"), values)
    assert (values["name"], values["version"]) == (PROJECT["name"], PROJECT["version"])
    release = (ROOT / "deploy" / "dev" / "release.sh").read_text(encoding="utf-8")
    assert 'dist/koala-scheduler-$version.tar.gz"' in release
    assert values["sources"] == ["koala-scheduler-%(version)s.tar.gz"]


def test_the_compose_file_runs_what_the_image_has() -> None:
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))["services"]
    image = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
    assert f"CMD {services['daemon']['command']}".replace("'", '"') in image
    exposed = re.search(r"^EXPOSE (.*)$", image, re.MULTILINE)
    assert exposed
    assert services["daemon"]["ports"] == [f"{port}:{port}" for port in exposed[1].split()]
    daemon = tomllib.loads((ROOT / "deploy" / "daemon.toml").read_text(encoding="utf-8"))
    assert daemon["relay"]["listen"].endswith(exposed[1].split()[-1])
    for service in services.values():
        state, config = service["volumes"]
        assert state.endswith(":/var/lib/koala")
        assert service["command"][-1] in config


@pytest.mark.packages
def test_easybuild_reads_the_easyconfig(tmp_path: Path) -> None:
    """EasyBuild itself, from PyPI. Nothing is built: that would compile a compiler first."""
    venv.create(tmp_path / "eb", with_pip=True)
    python = str(tmp_path / "eb" / "bin" / "python")
    pip = [python, "-m", "pip", "install", "-q", "easybuild-framework", "easybuild-easyblocks"]
    subprocess.run(pip, check=True, timeout=600)
    run = subprocess.run(
        [python, "-c", READ, str(EASYCONFIG)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == f"{PROJECT['name']} {PROJECT['version']} []"
