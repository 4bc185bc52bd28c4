"""Scripts of deploy/dev: what they leave alone."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path

from tests.tidy.sources import ROOT

DEBIAN_ROOT = ROOT / "deploy" / "dev" / "debian-root.sh"


def test_a_debian_is_not_unpacked_over_other_files_or_another_debian(tmp_path: Path) -> None:
    """The script is run by root, with a folder that a person types."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").touch()
    older = tmp_path / "older"
    older.mkdir()
    (older / ".base").write_text("bookworm\n", encoding="utf-8")
    for folder, said in ((mine, "has other files"), (older, "has bookworm")):
        run = subprocess.run(
            [str(DEBIAN_ROOT), "trixie", str(folder), "hello"],
            env={"PATH": "/usr/bin:/bin"},  # without debootstrap, should it get that far
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.returncode, said in run.stderr) == (1, True), run.stderr
    assert (mine / "thesis.tex").exists()


def call(*words: str) -> int:
    """Call a function of processes.sh; return its exit status."""
    script = f'set -euo pipefail; . {ROOT / "deploy" / "dev" / "processes.sh"}; "$@"'
    return subprocess.run(["bash", "-c", script, "bash", *words], check=False).returncode


def test_processes_of_jobs_that_outlived_their_cluster_are_killed_and_no_others(
    tmp_path: Path,
) -> None:
    """A shell that has read the cluster's settings has their line, too."""
    mine, other = f"CLUSTER={tmp_path}/a", f"CLUSTER={tmp_path}/ab"
    of_processes = ((mine, "JOB_ID=1"), (mine,), (other, "JOB_ID=1"))
    with contextlib.ExitStack() as stack:
        running = []
        for lines in of_processes:
            environment = dict(line.split("=", 1) for line in lines)
            process = subprocess.Popen(["/bin/sleep", "600"], env=environment)
            stack.callback(process.wait)
            stack.callback(process.kill)
            running.append(process)
        assert call("kill_strays", mine, "a_shepherd", "JOB_ID") == 0
        assert running[0].wait(60) == -signal.SIGKILL
        assert [one.poll() for one in running[1:]] == [None, None]
        assert call("kill_strays", mine, "sleep", "JOB_ID") == 0
        assert running[1].wait(60) == -signal.SIGKILL
        assert running[2].poll() is None
        (tmp_path / "pid").write_text(f"{running[2].pid}\n", encoding="ascii")
        assert call("alive", str(running[2].pid)) == 0
        assert call("stop_pidfiles", str(tmp_path / "none"), str(tmp_path / "pid")) == 0
        assert call("alive", str(running[2].pid)) != 0, "a zombie, until it is waited for"
        assert running[2].wait(60) == -signal.SIGTERM
