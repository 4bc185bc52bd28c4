"""A site whose owner lists folders starts programs of these folders only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from koala.common.protocol.messages import Program
from koala_agent.placeholders.allowed_programs import NotAllowedError, check_program


@pytest.fixture
def apps(tmp_path: Path) -> Path:
    """A site's folder of programs beside a user's own, which has links into it and a copy."""
    apps = tmp_path / "apps"
    for path in (apps / "bin" / "ocean", tmp_path / "home" / "ocean", tmp_path / "apps2" / "ocean"):
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "home" / "link").symlink_to(apps / "bin" / "ocean")
    (apps / "out").symlink_to(tmp_path / "home" / "ocean")
    return apps


def refusal(program: Program, *folders: Path) -> str:
    with pytest.raises(NotAllowedError) as caught:
        check_program(program, tuple(map(str, folders)), work=folders[0].parent / "claims" / "j1")
    return str(caught.value)


def test_what_is_started_is_what_was_compared(apps: Path) -> None:
    """A link that its owner turns elsewhere between the look and the start changes nothing."""
    link = apps.parent / "home" / "link"
    allowed = check_program(Program(executable=str(link)), (str(apps),), work=apps)
    assert allowed.executable == str(apps / "bin" / "ocean")


@pytest.mark.parametrize(
    "name",
    [
        "home/ocean",
        "apps/../home/ocean",
        "apps/out",
        "apps2/ocean",
        "apps",
        "apps/bin/../../home/x",
    ],
)
def test_what_lies_elsewhere_is_refused_with_what_is_allowed(apps: Path, name: str) -> None:
    told = refusal(Program(executable=f"{apps.parent}/{name}"), apps, Path("/opt/sim"))
    assert f"executable '{apps.parent}/{name}'" in told
    assert f"site.executables allows programs below {apps}, /opt/sim" in told


def test_a_file_that_the_job_brings_along_is_not_one_of_the_site_s(apps: Path) -> None:
    for name in ("ocean", "./bin/ocean", "bin/ocean", ""):
        assert "is not an absolute path" in refusal(Program(executable=name), apps)


@pytest.mark.parametrize(
    "name",
    ["PATH", "LD_PRELOAD", "BASH_ENV", "ENV", "PS4", "PYTHONPATH", "JAVA_TOOL_OPTIONS", "OMP_X"],
)
def test_a_job_sets_no_variable_that_the_site_does_not_name(apps: Path, name: str) -> None:
    """A script of the site's with BASH_ENV="$(COMMAND)" would begin with that command."""
    program = Program(executable=str(apps / "bin" / "ocean"), environment=((name, "$(id)"),))
    told = refusal(program, apps)
    assert told == (
        f"environment variable {name!r} with site.executables (expected those of site.variables:"
        " none)"
    )


def test_a_site_names_the_variables_that_jobs_set(apps: Path) -> None:
    for name in ("OMP_NUM_THREADS", "OMP_", "SEED"):
        assert set_variable(apps, name) == ""
    for name in ("omp_num_threads", "XOMP_NUM_THREADS", "SEEDS", "PATH"):
        told = set_variable(apps, name)
        assert f"variable {name!r} with " in told
        assert told.endswith("those of site.variables: OMP_*, SEED)")


def set_variable(apps: Path, name: str) -> str:
    """Return the reason why a job may not set it; empty when it may."""
    program = Program(executable=str(apps / "bin" / "ocean"), environment=((name, "4"),))
    try:
        allowed = check_program(program, (str(apps),), variables=("OMP_*", "SEED"), work=apps)
    except NotAllowedError as error:
        return str(error)
    return "" if allowed == program else "it is another program"


@pytest.mark.parametrize("what", ["directory", "stdin", "stdout", "stderr"])
@pytest.mark.parametrize(
    "name",
    [
        "/home/ann/.ssh/authorized_keys",
        "../j2",
        "a/../../j2",
        "out/x",
        ".koala/spec.json",
        "./.koala",
    ],
)
def test_a_listed_program_reads_and_writes_in_the_claim_s_own_folder(
    apps: Path, what: str, name: str
) -> None:
    """Else cat and echo would do with these whatever the user likes, as the agent's account."""
    work = apps.parent / "claims" / "j1"
    work.mkdir(parents=True)
    (work / "out").symlink_to(apps)
    named: Any = {what: name}
    anywhere = Program(executable=str(apps / "bin" / "ocean"), **named)
    told = refusal(anywhere, apps)
    assert told.startswith(f"{what} {name!r} with site.executables (expected a relative path")
    assert check_program(anywhere, (), work=work) == anywhere
