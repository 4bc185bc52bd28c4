"""Record the state folders of a release: `python -m tests.states.record TREE NAME`.

TREE is a checkout of the release (`git worktree add TREE COMMIT`). Its daemon and agents run a
fixed scenario below `/tmp/koala-recorded` and are ended twice, by TERM and by KILL. Each time
`NAME-term.tar.gz` or `NAME-kill.tar.gz` is written beside this file: what the processes left on the
disk, and `phases.json`, the phase of each job at that instant.
`tests/daemon/storage/test_old_states.py` and `tests/live/failures/test_old_states.py` start the
present release on all of them.

Record a new one whenever a number in `koala.runtime.disk_formats` or `koala_agent.formats` is
raised: from the last commit before.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

ROOT = Path("/tmp/koala-recorded")
MARK = "KOALA_RECORDED"
SITES = {"delft": 4, "leiden": 4, "utrecht": 2}
WAIT_S = 120.0
LOOK_S = 0.2
LEFT_OUT = {"endpoint", "ballast", "evidence", "tmp", "administrator.toml"}
"""Files that a start makes again, or that nothing depends on."""

DAEMON = """\
[daemon]
listen = "{address}"
agents = "127.0.0.1:0"
state_dir = "daemon"
beat_s = 0.5
silence_s = 5.0
certificate_days = 3650
ballast_mb = 0
[parameters]
claiming_step_min_s = 0.05
claim_fraction = 0.25
hold_lease_s = 60.0
run_lease_s = 60.0
late_max_s = 2.0
kill_s = 0.5
pause_max_s = 1.0
queue_jobs_max = 4
[links.bandwidth.leiden]
delft = 20000.0
[journal]
snapshot_events = 100
keep_jobs = 2
"""
AGENT = """\
[agent]
site = "{site}"
daemon = "{address}"
state_dir = "{site}"
silence_s = 6.0
[site]
processors = {processors}
grace_s = 2.0
[files]
serve = "127.0.0.1:0"
rate = 20000.0
[accounts]
mode = "anyone"
"""
TRUE, SLEEP = "&(executable=/bin/true)", "&(executable=/bin/sleep)(arguments=600)"
AT = "(resourceManagerContact={})"
PROVISION = """\
from pathlib import Path
from koala.daemon.auth.local_provisioning import provision
provision(Path("daemon"), {name: Path(name) for name in SITES}, lifetime_s=3600.0 * 24 * 3650)
"""


class Recorder:
    """The processes of one recording."""

    def __init__(self, tree: Path, end: str) -> None:
        self._end = end
        self._mark = secrets.token_hex(8)
        shutil.rmtree(ROOT, ignore_errors=True)
        self._state = ROOT / "state"
        self._state.mkdir(parents=True)
        (ROOT / "tree").symlink_to(tree.resolve())
        (ROOT / "venv").symlink_to(Path(sys.prefix).resolve())
        self._python = str(ROOT / "venv" / "bin" / "python")
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(ROOT),
            "PYTHONPATH": f"{ROOT}/tree:{ROOT}/tree/agents",
            "GRPC_ENABLE_FORK_SUPPORT": "0",
            "KOALA_CREDENTIALS": f"{self._state}/daemon/authority/administrator.toml",
            MARK: self._mark,
        }

    def record(self, target: Path) -> None:
        """Play the scenario, end all of it, and pack what is left."""
        try:
            phases = self._play()
            self._finish()
        finally:
            self._sweep()
        (self._state / "phases.json").write_text(json.dumps(phases, indent=1) + "\n")
        with tarfile.open(target, "w:gz", compresslevel=9) as archive:
            archive.add(self._state, arcname="state", filter=_kept)

    def _play(self) -> dict[str, str]:
        subprocess.run(
            [self._python, "-c", f"SITES = {list(SITES)}\n{PROVISION}"],
            cwd=self._state,
            env=self._environment,
            check=True,
        )
        self._write("daemon", DAEMON.format(address="127.0.0.1:0"))
        self._start("daemon")
        endpoint = self._state / "daemon" / "endpoint"
        self._until(endpoint.exists)
        address = endpoint.read_text().strip()
        self._environment["KOALA_ADDRESS"] = address
        for site, processors in SITES.items():
            text = AGENT.format(address=address, site=site, processors=processors)
            self._write(site, text)
            (self._state / site / "files").mkdir(parents=True, exist_ok=True)
        (self._state / "leiden" / "files" / "matrix").write_bytes(b"koala" * 400_000)
        self._start(*SITES)
        self._until(lambda: sum(s["state"] == "usable" for s in self._ask("sites")) == len(SITES))
        self._until(lambda: bool(self._ask("files")))
        both = "+" + "".join(f"({TRUE}{AT.format(site)})" for site in ("delft", "leiden"))
        done = [self._submit(both, f"key-{number}") for number in range(8)]
        self._forget_some()
        failed = self._submit(f"&(executable=/bin/false){AT.format('utrecht')}")
        self._phase("Finished", *done)
        self._phase("Failed", failed)
        # From here on: one job for each phase that lasts.
        running = self._submit(
            "+" + "".join(f"({SLEEP}(count=2){AT.format(site)})" for site in ("delft", "leiden"))
        )
        lost = self._submit(f"{SLEEP}{AT.format('utrecht')}")
        back = self._submit(
            "+" + "".join(f"({SLEEP}{AT.format(site)})" for site in ("delft", "utrecht"))
        )
        self._phase("Running", running, lost, back)
        self._call("drain", "utrecht")
        self._children["utrecht"].send_signal(signal.SIGSTOP)
        self._call("cancel", lost)
        self._kill(f"KOALA_CLAIM={back}/1/0/".encode())
        self._phase("Stopping", back)
        claiming = self._submit(f"{SLEEP}(count=2){AT.format('delft')}(inputFile=matrix)")
        later = self._submit(f'{TRUE}{AT.format("leiden")}(deadline="+600")', "key-deadline")
        placing = self._submit(f"{TRUE}(count=4){AT.format('delft')}", "key-placing")
        cancelled = self._submit(f"{TRUE}(count=4){AT.format('leiden')}")
        self._call("cancel", cancelled)
        more = [self._submit(f"{TRUE}(count=4){AT.format('leiden')}") for _ in range(4)]
        self._phase("Placing", later, placing)
        self._phase("Delayed", more[-1])
        self._phase("Claiming", claiming)
        found = {job["job"]: job["phase"] for job in self._ask("list", "--all")}
        return dict(sorted(found.items(), key=lambda pair: int(pair[0].lstrip("j"))))

    def _forget_some(self) -> None:
        """Have jobs leave the memory for the archive, which they do in lots."""
        program = (
            "import asyncio; from koala.client import AsyncClient\n"
            "async def run():\n"
            "    async with AsyncClient() as client:\n"
            f"        text = {TRUE + '(count=4)' + AT.format('leiden')!r}\n"
            "        jobs = [(await client.submit(text)).job for _ in range(110)]\n"
            "        await client.cancel(jobs)\n"
            "asyncio.run(run())"
        )
        self._call("drain", "leiden")
        subprocess.run(
            [self._python, "-c", program], cwd=self._state, env=self._environment, check=True
        )
        self._call("resume", "leiden")

    def _finish(self) -> None:
        for name in (*SITES, "daemon"):
            child = self._children[name]
            if self._end == "term" and name != "utrecht":
                child.terminate()
            else:
                child.kill()
            child.wait(WAIT_S)

    # --- processes --------------------------------------------------------------------------------

    def _write(self, name: str, text: str) -> None:
        (self._state / f"{name}.toml").write_text(text)

    def _start(self, *names: str) -> None:
        for name in names:
            module = "koala.daemon.main" if name == "daemon" else "koala_agent.main"
            with (ROOT / f"{name}.log").open("ab") as log:
                self._children[name] = subprocess.Popen(
                    [self._python, "-m", module, f"{name}.toml"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._state,
                    env=self._environment,
                    start_new_session=True,
                )

    def _sweep(self) -> None:
        for child in self._children.values():
            if child.poll() is None:
                child.kill()
                child.wait()
        for _ in range(3):
            self._kill(b"")

    def _kill(self, variable: bytes) -> None:
        """Kill our processes with this in their environment."""
        for place in Path("/proc").glob("[0-9]*/environ"):
            try:
                environment = place.read_bytes()
                if f"{MARK}={self._mark}".encode() in environment and variable in environment:
                    os.kill(int(place.parent.name), signal.SIGKILL)
            except OSError:
                continue

    def _until(self, is_so: Any) -> None:
        for _ in range(int(WAIT_S / LOOK_S)):
            if is_so():
                return
            ended = [name for name, child in self._children.items() if child.poll() is not None]
            if ended:
                raise RuntimeError(f"{ended} ended: see the logs in {ROOT}")
            threading.Event().wait(LOOK_S)
        raise TimeoutError(f"see the logs in {ROOT}")

    # --- the command line -------------------------------------------------------------------------

    def _call(self, *words: str, text: str = "") -> str:
        done = subprocess.run(
            [self._python, "-m", "koala.cli", *words],
            input=text,
            capture_output=True,
            text=True,
            cwd=self._state,
            env=self._environment,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"koala {' '.join(words)}: {done.stderr}")
        return done.stdout

    def _ask(self, *words: str) -> Any:
        """Return a document, or the list in one."""
        found = json.loads(self._call(*words, "--json"))
        lists = [value for value in found.values() if isinstance(value, list)]
        return lists[0] if words[0] in ("sites", "files", "list") else found

    def _submit(self, rsl: str, key: str = "") -> str:
        named = ("--key", key) if key else ()
        return self._call("submit", "-", *named, text=rsl).strip()

    def _phase(self, phase: str, *jobs: str) -> None:
        for job in jobs:
            self._until(lambda job=job: self._ask("show", job)["phase"] == phase)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """True for files to pack: no program of ours, nothing of whoever recorded it."""
    name = Path(member.name)
    if name.name in LEFT_OUT or ".starter" in name.parts or not (member.isdir() or member.isfile()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main(tree: Path, name: str) -> None:
    """Record both ends of a release."""
    for end in ("term", "kill"):
        Recorder(tree, end).record(Path(__file__).with_name(f"{name}-{end}.tar.gz"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
