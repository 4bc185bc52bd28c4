"""The image of deploy/Containerfile is built and run: a daemon and an agent, each in a container.

The base image comes from no registry: it is Debian with its own Python, made by debootstrap. The
published base (the default of BASE) is therefore not tried here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.harness.ports import free_port
from tests.tidy.sources import ROOT

pytestmark = [pytest.mark.packages, pytest.mark.root]

BASE = "localhost/koala-base"
IMAGE = "localhost/koala"
BASE_ARCHIVE = ROOT / "build" / "container" / "base.tar"
BUILD_LIMIT_S = 900
RUN_LIMIT_S = 120
STATE = "/var/lib/koala"


@dataclass(frozen=True)
class Images:
    """Images in a folder of their own, and the programs that run from them."""

    folder: Path

    def buildah(self, *words: str, limit_s: float = RUN_LIMIT_S, text: str = "") -> str:
        """Run a command of buildah; return its output."""
        run = subprocess.run(
            ["buildah", *words],
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    @property
    def environment(self) -> dict[str, str]:
        """Environment of buildah: storage in the folder, no container runtime."""
        config = self.folder / "storage.conf"
        if not config.exists():
            root = self.folder / "storage"
            config.write_text(
                f'[storage]\ndriver = "vfs"\nrunroot = "{root}/run"\ngraphroot = "{root}/graph"\n'
            )
        return {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(config),
            "BUILDAH_ISOLATION": "chroot",
        }


@dataclass(frozen=True)
class Container:
    """A container whose state folder and configuration are volumes."""

    images: Images
    name: str
    volumes: tuple[str, ...]

    def argv(self, *words: str) -> list[str]:
        """Return the command that runs a program in it."""
        options = [word for volume in self.volumes for word in ("--volume", volume)]
        return ["run", *options, self.name, "--", *words]

    def run(self, *words: str, text: str = "") -> str:
        """Run a program to its end; return its output."""
        return self.images.buildah(*self.argv(*words), text=text)

    @contextmanager
    def service(self, *words: str) -> Iterator[None]:
        """Run a program until the block ends, then stop it as a container engine does."""
        with (
            (self.images.folder / f"{self.name}.log").open("ab") as log,
            subprocess.Popen(
                ["buildah", *self.argv(*words)],
                env=self.images.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            ) as engine,
        ):
            try:
                yield
                first_process(engine.pid).send_signal(signal.SIGTERM)
                assert engine.wait(RUN_LIMIT_S) == 0
            finally:
                engine.kill()


def first_process(engine: int) -> psutil.Process:
    """Return the program that an engine runs."""
    below = psutil.Process(engine).children(recursive=True)
    return next(process for process in below if process.name().startswith("koala"))


def test_a_job_runs_on_a_daemon_and_an_agent_in_containers(images: Images) -> None:
    """The daemon's first start needs `--init`; afterwards the command of the image is enough."""
    address = f"127.0.0.1:{free_port()}"
    daemon = container(images, "daemon", f'[daemon]\nlisten = "{address}"\n')
    command = json.loads(images.buildah("inspect", IMAGE))["OCIv1"]["config"]["Cmd"]
    refused = subprocess.run(
        ["buildah", *daemon.argv(*command)],
        env=images.environment,
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )
    assert refused.returncode == 1
    assert "--init, once" in refused.stderr
    with daemon.service(*command, "--init"):
        wait_for_service(daemon)
        joining = daemon.run("koala", "site", "add", "vu", "--json")
    token = json.loads(joining)["token"]
    agent = container(
        images,
        "agent",
        f'[agent]\nsite = "vu"\ndaemon = "{address}"\n'
        '[site]\nprocessors = 2\naddress = "127.0.0.1"\n[lrm]\nkind = "emulated"\n',
    )
    with daemon.service(*command):
        wait_for_service(daemon)
        agent.run("koala-agent", "join", "/etc/koala/agent.toml", text=token + "\n")
        with agent.service("koala-agent", "/etc/koala/agent.toml"):
            said = daemon.run("koala", "run", "--sites", "1", "--", "id", "-u")
    assert said.splitlines()[-1].split()[-1] == "7740"


def wait_for_service(daemon: Container) -> None:
    """Ask until the daemon answers its own administrator."""
    give_up_at = time.monotonic() + RUN_LIMIT_S
    while time.monotonic() < give_up_at:
        run = subprocess.run(
            ["buildah", *daemon.argv("koala", "list")],
            env=daemon.images.environment,
            capture_output=True,
            timeout=RUN_LIMIT_S,
            check=False,
        )
        if run.returncode == 0:
            return
    log = daemon.images.folder / f"{daemon.name}.log"
    pytest.fail(f"no answer in {RUN_LIMIT_S} s: {log.read_text()}")


def container(images: Images, role: str, settings: str) -> Container:
    """Make a container with an empty state folder and a configuration file."""
    state = images.folder / f"{role}-state"
    state.mkdir(mode=0o700)
    os.chown(state, 7740, 7740)
    config = images.folder / f"{role}.toml"
    lines = settings.split("\n", 2)
    config.write_text("\n".join([*lines[:2], f'state_dir = "{STATE}"', *lines[2:]]))
    name = images.buildah("from", "--pull-never", IMAGE).strip()
    # buildah may mount a volume of the image over ours. Container engines do not.
    images.buildah("config", "--volume", f"{STATE}-", name)
    volumes = (f"{state}:{STATE}", f"{config}:/etc/koala/{role}.toml:ro")
    return Container(images=images, name=name, volumes=volumes)


@pytest.fixture
def images(tmp_path: Path) -> Images:
    """Build the image of the project, without any registry of images."""
    if shutil.which("buildah") is None or shutil.which("debootstrap") is None:
        pytest.fail("needs the programs buildah and debootstrap (Debian packages)")
    images = Images(tmp_path)
    base = images.buildah("from", "scratch").strip()
    images.buildah("add", base, str(base_archive()), "/", limit_s=BUILD_LIMIT_S)
    images.buildah("commit", "--rm", base, BASE, limit_s=BUILD_LIMIT_S)
    wheels = tmp_path / "wheels"
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "-w", wheels, ROOT, "hatchling>=1.26"],
        check=True,
        timeout=BUILD_LIMIT_S,
        capture_output=True,
    )
    (tmp_path / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    images.buildah(
        *("bud", "--pull-never", "--build-arg", f"BASE={BASE}", "--tag", IMAGE),
        *("--volume", f"{wheels}:/wheels:ro", "--volume", f"{tmp_path}/pip.conf:/etc/pip.conf:ro"),
        *("--file", str(ROOT / "deploy" / "Containerfile"), str(ROOT)),
        limit_s=BUILD_LIMIT_S,
    )
    return images


def base_archive() -> Path:
    """Return a small Debian with Python as an archive; it is made once for a clone."""
    if not BASE_ARCHIVE.exists():
        BASE_ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
        tree = BASE_ARCHIVE.with_name("base")
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(
            [
                "debootstrap",
                "--variant=minbase",
                "--include=python3,python3-venv",
                "bookworm",
                tree,
            ],
            check=True,
            timeout=BUILD_LIMIT_S,
            capture_output=True,
        )
        part = BASE_ARCHIVE.with_suffix(".part")
        subprocess.run(["tar", "-C", tree, "-cf", part, "."], check=True, timeout=BUILD_LIMIT_S)
        shutil.rmtree(tree)
        part.rename(BASE_ARCHIVE)
    return BASE_ARCHIVE
