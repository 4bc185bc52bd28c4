"""The world of a program: that of a plain job at real batch systems, and of a plain child of the
shell on this machine. What is different is listed in docs/guides/environment.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient
from tests.batch.systems.system import System
from tests.harness.moments import moment, until

pytestmark = [pytest.mark.lrm, pytest.mark.slow]

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "environment.md"
LIMIT_S = 90.0
KINDS = ("slurm", "gridengine", "htcondor", "oar")
"""Kinds of sites with rows of their own."""
WORLD = """\
#!/bin/bash
module load compiler
PYTHONCOERCECLOCALE=0 exec /usr/bin/python3 - "$1" <<'END'
import json, os, resource, sys
with open("/proc/self/status") as file:
    status = dict(line.split(":", 1) for line in file)
umask = os.umask(0o077)
ignored = int(status["SigIgn"], 16) & ~(3 << 31)  # two are the C library's own
found = {
    "environment": dict(os.environ),
    "umask": umask,
    "signals": [int(status["SigBlk"], 16), ignored],
    "limits": {name: resource.getrlimit(getattr(resource, name))
               for name in dir(resource) if name.startswith("RLIMIT_")},
    "nice": os.nice(0),
    "groups": sorted(os.getgroups()),
    "folder": os.getcwd(),
    "session": os.getsid(0) == os.getpgid(0),
    "stdin": os.readlink("/proc/self/fd/0"),
}
with open(sys.argv[1] + ".new", "w") as file:
    json.dump(found, file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
END
"""
SHELL = 'umask 027; ulimit -S -n 900 -c 0 -s 4096; exec "$@"'
OWN = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "BASH_FUNC_module%%": '() {  export LOADEDMODULES="$2:/"\n}',
    "MODULEPATH": "/opt/modules",
    "LMOD_CMD": "/opt/lmod/libexec/lmod",
    "PYTHONPATH": "/opt/python",
    "SQUEUE_FORMAT": "%i",
    "SINFO_FORMAT": "%n",
    "COLUMNS": "20",
    "SBATCH_WAIT_ALL_NODES": "0",
    "ENVIRONMENT": "of mine",
    "odd name": "a\nb",
}
JOB = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "64", "SLURM_CPUS_PER_TASK": "3", "PMI_RANK": "1"}
"""Variables of an outer job."""
OTHERS = {"INVOCATION_ID": "1", "KOALA_QUIET": "1", "GRPC_VERBOSITY": "NONE"}
"""Variables of a service, and of a user of Koala."""


class Here:
    """A shell of this machine with its variables, and a folder for what programs find."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "world.sh"
        self.script.write_text(WORLD, encoding="utf-8")
        self.script.chmod(0o755)
        names = ("HOME", "USER", "LOGNAME", "SHELL", "KOALA_RUNTIME_DIR")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        self.variables = {**kept, **OWN, "TMPDIR": str(folder)}

    def words(self, *argv: str) -> list[str]:
        """The words that run a command in this shell."""
        return ["bash", "-c", SHELL, "-", *argv]

    def run(self, *argv: str, more: dict[str, str]) -> None:
        """Run a command to its end."""
        subprocess.run(
            self.words(*argv),
            env={**self.variables, **more},
            cwd=self.folder,
            check=True,
            capture_output=True,
            timeout=LIMIT_S,
        )

    async def found(self, name: str) -> dict[str, Any]:
        """Wait for what a program has found."""
        await until((self.folder / name).exists)
        found: dict[str, Any] = json.loads((self.folder / name).read_text(encoding="utf-8"))
        return {**found.pop("environment"), **found}


@pytest.fixture
def here() -> Iterator[Here]:
    with tempfile.TemporaryDirectory(prefix="koala-world-") as folder:
        yield Here(Path(folder))


def listed(kind: str) -> list[str]:
    """The differences that the page lists for a kind of site."""
    rows = re.findall(r"^\| (`.*`) \| (.+?) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    here = [names for names, at in rows if at not in KINDS or at == kind]
    return [name for names in here for name in re.findall(r"`([^`]+)`", names)]


@asynccontextmanager
async def grid_up(here: Here, sites: dict[str, System]) -> AsyncIterator[AsyncClient]:
    """`koala up`, as somebody starts it within another batch job; all sites are usable. In the end
    no job is left at them."""
    tables = ["[daemon]\nlisten = '127.0.0.1:0'\n[sites.here]\nsite = { processors = 4 }\n"]
    for name, system in sites.items():
        more = 'parallel_environment = "grid", ' if system.kind == "gridengine" else ""
        given = ", ".join(f'{key} = "{text}"' for key, text in variables_of(system).items())
        tables.append(
            f"[sites.{name}]\nsite = {{ processors = 16, grace_s = 60.0 }}\n"
            f'lrm = {{ kind = "{system.kind}", {more}environment = {{ {given} }} }}\n'
        )
    file, state = here.folder / "grid.toml", here.folder / "state"
    file.write_text(f'state_dir = "{state}"\n' + "".join(tables), encoding="utf-8")
    koala = str(Path(sys.executable).parent / "koala")
    up = await asyncio.create_subprocess_exec(
        *here.words(koala, "up", "--no-web", str(file)),
        env={**here.variables, **JOB, **OTHERS},
        cwd=here.folder,
        stdout=subprocess.PIPE,
    )
    with ExitStack() as stack:
        for system in sites.values():
            stack.callback(system.clear)
        try:
            endpoint = state / "daemon" / "endpoint"
            await until(endpoint.exists)
            address = endpoint.read_text(encoding="utf-8").split()[0]
            async with AsyncClient(address) as client:
                while [site.idle for site in await client.sites()].count(0) or len(
                    await client.sites()
                ) <= len(sites):
                    await moment()
                yield client
        finally:
            up.send_signal(signal.SIGTERM)
            async with asyncio.timeout(LIMIT_S):
                await up.wait()


def variables_of(system: System) -> dict[str, str]:
    """The variables of the batch system; PATH where its commands are in no usual folder."""
    kept = system.environment
    return {k: v for k, v in kept.items() if k != "PATH"} if system.kind == "slurm" else kept


async def compare(here: Here, client: AsyncClient, kinds: dict[str, str]) -> None:
    """Run a program of Koala at each of these sites, and compare its world with that of the plain
    job there: each difference is listed."""
    script = str(here.script)
    for site, kind in kinds.items():
        text = f'(executable="{script}")(arguments="{here.folder}/{site}-koala")'
        job = await client.submit(f"&{text}(maxWallTime=2)(resourceManagerContact={site})")
        assert await client.wait(job.job) == "Finished", await client.show(job.job)
        one, other = [await here.found(f"{site}-{which}") for which in ("plain", "koala")]
        differing = {name for name in one | other if one.get(name) != other.get(name)}
        allowed = listed(kind)
        unlisted = [name for name in differing if not any(fnmatchcase(name, a) for a in allowed)]
        assert unlisted == [], (site, {name: (one.get(name), other.get(name)) for name in unlisted})
        assert {"KOALA_JOB", "RANK", "folder"} <= differing, "they are compared"
        assert OTHERS.keys().isdisjoint(other)
        if kind != "slurm":
            assert JOB.keys().isdisjoint(other)
        if kind in ("slurm", "emulated"):
            assert other["LOADEDMODULES"] == "compiler:/"
            assert (other["PYTHONPATH"], other["umask"]) == ("/opt/python", 0o027)
            assert other["limits"]["RLIMIT_NOFILE"][0] == 900


async def test_a_program_has_the_world_of_a_plain_job_but_for_what_is_listed(
    slurm: dict[str, System], cell: dict[str, System], here: Here
) -> None:
    """Each difference is listed, and each listed row for these kinds is one."""
    alpha, gamma = slurm["alpha"], cell["gamma"]
    plain = {name: str(here.folder / f"{name}-plain") for name in ("here", "alpha", "gamma")}
    script = str(here.script)
    here.run(script, plain["here"], more={})
    words = ["sbatch", "-t", "2", "-n", "1", "-o", "slurm.out", script, plain["alpha"]]
    here.run(*words, more=variables_of(alpha))
    words = ["qsub", "-pe", "grid", "1", "-S", "/bin/bash", "-o", "/dev/null", "-j", "y"]
    here.run(*words, script, plain["gamma"], more=variables_of(gamma))
    async with grid_up(here, {"alpha": alpha, "gamma": gamma}) as client:
        await compare(here, client, {"here": "emulated", "alpha": "slurm", "gamma": "gridengine"})


async def test_nor_does_a_pool_or_a_cluster_of_oar_give_it_another_one(
    pool: dict[str, System], oar: dict[str, System], here: Here
) -> None:
    here.folder.chmod(0o777)  # programs run there as another account
    kappa, omega = pool["kappa"], oar["omega"]
    script, plain = (
        str(here.script),
        {name: f"{here.folder}/{name}-plain" for name in ("kappa", "omega")},
    )
    description = here.folder / "plain.sub"
    description.write_text(
        f"universe = vanilla\nexecutable = {script}\narguments = {plain['kappa']}\nqueue\n",
        encoding="utf-8",
    )
    here.run("condor_submit", str(description), more=kappa.environment)
    words = ["oarsub", "-O", "/dev/null", "-E", "/dev/null", "-l", "core=1,walltime=0:2:0"]
    here.run(*words, f"{script} {plain['omega']}", more=omega.environment)
    async with grid_up(here, {"kappa": kappa, "omega": omega}) as client:
        await compare(here, client, {"kappa": "htcondor", "omega": "oar"})
