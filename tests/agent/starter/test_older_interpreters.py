"""Starters under the interpreters of compute nodes, as old as Python 3.6: installed in a shared
folder, and carried by a batch script."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from koala.common.protocol.messages import EndKind, Resize
from koala.common.protocol.names import ClaimId
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.placeholders.portable_source import portable
from koala_agent.placeholders.starter_installation import install_starter
from tests.agent.site import Site, a_hold, a_shell_hold, a_site, an_arm
from tests.harness.programs import interpreters

pytestmark = pytest.mark.live

EVERY_MODULE = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import koala_agent.starter as starter
for module in pkgutil.walk_packages(starter.__path__, "koala_agent.starter."):
    print(importlib.import_module(module.name).__name__)
"""


@pytest.fixture(params=[pytest.param(path, id=name) for name, path in interpreters().items()])
def python(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture(params=["installed", "carried"])
def scratch(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """The folder of a node that shares nothing with the agent."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder if request.param == "carried" else None


def output(site: Site, claim: str) -> str:
    folder = site.folders.folder(ClaimId(claim))
    return (folder / "stdout.0").read_text()


async def test_a_program_runs_after_the_barrier(
    tmp_path: Path, python: Path, scratch: Path | None
) -> None:
    """Checked in, armed, released; its words, output and statuses are as they should be.

    The first process to fail ends the others, so each ignores TERM before one can fail.
    """
    script = (
        "trap '' TERM; : > ready.$KOALA_PROCESS; until [ -e ready.0 ]; do :; done;"
        ' echo "$KOALA_PROCESS of $WORLD_SIZE, $WORD"; exit $((3 * KOALA_PROCESS))'
    )
    hold = a_shell_hold(script, processes=2, environment=(("WORD", "Grüße"),))
    async with a_site(tmp_path, python=python, scratch=scratch) as site:
        arm = an_arm(hold)
        await site.armed(hold, arm)
        site.release(arm)
        end = (await site.gone()).end
        assert end is not None
        said = output(site, "j1/1/0/1")
    assert (end.kind, end.statuses) == (EndKind.EXITED, (0, 3)), end
    assert said == "0 of 2, Grüße\n"


SRUN = """\
#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift; done
trap - HUP
exec env SLURMD_NODENAME=node2 "$@"
"""


@pytest.mark.usefixtures("two_machines")
async def test_a_helper_runs_processes_on_another_machine(
    tmp_path: Path, python: Path, scratch: Path | None
) -> None:
    """Started by `srun`, which here is a script that runs it on this machine."""
    hold = a_shell_hold('echo "$KOALA_PROCESS on ${SLURMD_NODENAME:-node1}"', processes=2)
    async with a_site(tmp_path, python=python, scratch=scratch, kind="slurm") as site:
        await site.passed(hold)
        end = (await site.gone()).end
        assert end is not None
        folder = site.folders.folder(hold.claim)
        assert end.succeeded, (end, (folder / "placeholder.out").read_text())
        said = [(folder / f"stdout.{number}").read_text() for number in range(2)]
    assert said == ["0 on node1\n", "1 on node2\n"]


@pytest.mark.usefixtures("two_machines")
async def test_what_the_site_ends_on_another_machine_is_no_end_of_the_program(
    tmp_path: Path, python: Path, scratch: Path | None
) -> None:
    """Its signal goes to the helper there and to what that runs; here nothing is heard of it."""
    hold = a_shell_hold(
        'if [ "$KOALA_PROCESS" = 1 ]; then kill -TERM "$PPID"; fi; exec sleep 600', processes=2
    )
    async with a_site(tmp_path, python=python, scratch=scratch, kind="slurm") as site:
        await site.passed(hold)
        end = (await site.gone()).end
    assert end is not None
    assert (end.kind, end.reason) == (EndKind.SITE, "SIGTERM from the site at node2")


@pytest.fixture
def two_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocation of Slurm with two machines, and its `srun`."""
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(SRUN)
    srun.chmod(0o700)
    monkeypatch.setenv("PATH", f"{srun.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[1-2]")
    monkeypatch.setenv("SLURM_TASKS_PER_NODE", "1(x2)")


def test_every_module_can_be_imported(tmp_path: Path, python: Path) -> None:
    """Those of other machines and of launchers as well, which few jobs need."""
    command = install_starter(LaunchSettings(root=tmp_path, site="here", python=str(python)))
    run = subprocess.run(
        [*command[:-1], "-c", EVERY_MODULE, str(Path(command[-1]).parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "koala_agent.starter.node.driver" in run.stdout.split()
    assert "koala_agent.starter.mpi_launchers" in run.stdout.split()


def test_what_only_type_checkers_read_is_left_out_but_the_fields_of_classes() -> None:
    """These are texts."""
    text = '''"""A module."""
from __future__ import annotations
LIMIT: int | None = 3  # as it was
"""Most of them."""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
else:
    OTHER = 4
class Record:
    """A record."""
    names: tuple[str, ...]
    size: int = 0
    """In bytes."""
    def total(self, *given: int, more: dict[str, int] | None = None) -> int:
        left: int
        left: list[int] = [*given]
        self.left: list[int] = left
        return sum(left)
'''
    assert portable(text).splitlines() == [
        "LIMIT = 3",
        "OTHER = 4",
        "class Record:",
        " names: 'tuple[str, ...]'",
        " size: 'int' = 0",
        " def total(self, *given, more=None):",
        "  pass",
        "  left = [*given]",
        "  self.left = left",
        "  return sum(left)",
    ]


LEARNS = "from koala import job; it = next(job.resizes(after=0)); print(it.number, it.world_size)"


@pytest.mark.usefixtures("two_machines")
async def test_programs_on_all_machines_learn_of_a_resize(
    tmp_path: Path, python: Path, scratch: Path | None
) -> None:
    hold = a_hold(executable=str(python), arguments=("-c", LEARNS), processes=2, is_malleable=True)
    async with a_site(tmp_path, python=python, scratch=scratch, kind="slurm") as site:
        await site.passed(hold)
        peers = an_arm(hold, peers=1).peers
        site.claims.order(Resize(claim=hold.claim, number=1, peers=peers))
        end = (await site.gone()).end
        assert end is not None
        folder = site.folders.folder(hold.claim)
        assert end.succeeded, (end, (folder / "placeholder.out").read_text())
        said = [(folder / f"stdout.{number}").read_text() for number in range(2)]
    assert said == ["1 4\n", "1 4\n"]
