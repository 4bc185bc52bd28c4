"""Run one part of a Flower federation: SuperLink, SuperNode or SuperExec, as a component of a job.

The first component is the SuperLink, at MASTER_ADDR:MASTER_PORT. It submits the app in the folder
flower, and its end is the end of the federation. A SuperNode publishes the address of its own port,
and a secret, in the exchange of the job. The SuperExec of the same site reads them there, so the
two can be different machines, and jobs of a batch system that start together.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rendezvous import Rendezvous

WAIT_S = 240.0
"""Longest wait for another part, in seconds."""
ENDED = "flower/ended"
"""The name in the exchange that gets a value when the federation has ended."""
APP = Path(__file__).resolve().parent / "flower"
FLOWER = Path(sys.executable).parent
"""The folder of Flower's commands."""


def superlink(world: Rendezvous, folder: Path, supernodes: int) -> None:
    """Start the SuperLink, run the app, and tell all parts that the federation has ended."""
    address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    text = f'[superlink]\ndefault = "job"\n\n[superlink.job]\naddress = "{address}:{port}"\n'
    (folder / "config.toml").write_text(text + "insecure = true\n", encoding="utf-8")
    words = ["flower-superlink", "--insecure", "--host", address, "--port", port]
    link = started([*words, "--disable-runtime-dependency-installation"])
    try:
        await_health(f"http://{address}:{port}/health", link)
        print(flower("run", str(APP), "--run-config", f"supernodes={supernodes}", "--stream"))
        (run,) = json.loads(flower("ls", "--format", "json"))["runs"]
    finally:
        world.exchange.put(ENDED, "yes")
        link.terminate()
        link.wait()
    print(f"the run is {run['status']}")
    if run["status"] != "finished:completed":
        raise SystemExit("the app failed; its log is above")


def supernode(world: Rendezvous, folder: Path) -> list[str]:
    """Publish how the SuperExec of this site reaches the SuperNode; return the command of it."""
    host, site = world.member.address, world.member.site
    with socket.create_server((host, 0)) as free:
        port = str(free.getsockname()[1])  # flower-supernode does not tell which port it chose
    secret = secrets.token_hex(32)
    where = json.dumps({"address": f"{host}:{port}", "secret": secret})
    world.exchange.put(f"flower/{site}", where)
    words = ["flower-supernode", "--insecure", "--isolation", "process"]
    words += ["--superlink", f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"]
    words += ["--host", host, "--port", port, "--node-config", f'site="{site}"']
    return [*words, "--superexec-auth-secret-file", str(kept(folder, secret))]


def superexec(world: Rendezvous, folder: Path) -> list[str]:
    """Read where the SuperNode of this site is; return the command of the SuperExec."""
    where = json.loads(world.exchange.get(f"flower/{world.member.site}", wait_s=WAIT_S))
    words = ["flower-superexec", "--insecure", "--runtime-api-address", where["address"]]
    return [*words, "--superexec-auth-secret-file", str(kept(folder, where["secret"]))]


def run_until_end(world: Rendezvous, words: Sequence[str]) -> None:
    """Run a command until the federation has ended; fail if the command ends before."""
    process = started(words)
    ended = threading.Event()

    def end() -> None:
        world.exchange.get(ENDED, wait_s=WAIT_S)
        ended.set()
        process.terminate()

    threading.Thread(target=end, daemon=True).start()
    status = process.wait()
    if not ended.is_set():
        raise SystemExit(f"{words[0]} ended early, with status {status}")


def started(words: Sequence[str]) -> subprocess.Popen[str]:
    """Start one of Flower's services; its log is the component's standard error."""
    return subprocess.Popen([str(FLOWER / words[0]), *words[1:]], text=True, stdout=sys.stderr)


def flower(*words: str) -> str:
    """Run the command `flwr`, and return what it printed."""
    command = [str(FLOWER / "flwr"), *words]
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout


def await_health(url: str, process: subprocess.Popen[str]) -> None:
    """Wait until the SuperLink answers."""
    deadline = time.monotonic() + WAIT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the SuperLink does not answer")


def kept(folder: Path, secret: str) -> Path:
    """Write a secret to a file that only this user can read."""
    path = folder / "secret"
    path.touch(mode=0o600)
    path.write_text(secret, encoding="utf-8")
    return path


def main() -> None:
    """Run the part that the description asks for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("part", choices=["superlink", "supernode", "superexec"])
    options.add_argument("--supernodes", type=int, default=2, help="in the federation")
    given = options.parse_args()
    world = Rendezvous.from_environment("flower")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(
            PATH=f"{FLOWER}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            FLWR_HOME=name,
            FLWR_LOG_LEVEL="WARNING",
            FLWR_TELEMETRY_ENABLED="0",
            FLWR_DISABLE_UPDATE_CHECK="1",
        )
        if given.part == "superlink":
            superlink(world, folder, given.supernodes)
        elif given.part == "supernode":
            run_until_end(world, supernode(world, folder))
        else:
            run_until_end(world, superexec(world, folder))


if __name__ == "__main__":
    main()
