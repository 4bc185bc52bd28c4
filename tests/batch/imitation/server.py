"""Serve the imitation: `server.py FOLDER`, with the machine and its queues in FOLDER/site.json.

Requests and answers are JSON, one each connection of FOLDER/socket: [VERB, words ...] and
[exit status, output, complaint]. All jobs are in FOLDER/jobs.json before a request is answered, so
that a server that was killed goes on. The scheduler runs what fits, first come first served.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

UNKNOWN_JOB, BAD_STATE, UNKNOWN_QUEUE, UNKNOWN_RESOURCE, FINISHED = (
    *(15001, 15016, 15018, 15035, 15139),
)
"""Numbers of errors; a command exits with the last eight bits."""
TICK_S = 0.05
SERVER = "imitation"
Job = dict[str, Any]
Said = tuple[int, str, str]


class Server:
    """Jobs of the one machine, by number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._site: dict[str, Any] = json.loads((folder / "site.json").read_text())
        self._store = folder / "jobs.json"
        self._jobs: dict[str, Job] = {}
        if self._store.exists():
            self._jobs = json.loads(self._store.read_text())

    async def run(self) -> None:
        """Serve until killed; look for ended jobs and schedule at each tick."""
        path = self._folder / "socket"
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._serve, path, limit=2**24)
        (self._folder / "server.pid").write_text(str(os.getpid()))
        print("up", flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        forever = asyncio.get_running_loop().create_future()
        async with server:
            while True:
                self._reap()
                self._schedule()
                await asyncio.wait({forever}, timeout=TICK_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        verb, *words = json.loads(await reader.readline())
        answers: dict[str, Callable[..., Said]] = {
            "submit": self._submit,
            "jobs": self._tell_jobs,
            "delete": self._delete,
            "hold": self._hold,
            "signal": self._signal,
            "nodes": self._tell_nodes,
            "offline": self._set_offline,
        }
        writer.write(json.dumps(answers[verb](*words)).encode() + b"\n")
        with suppress(ConnectionError):
            await writer.drain()
            writer.close()

    def _save(self) -> None:
        new = self._store.with_suffix(".new")
        new.write_text(json.dumps(self._jobs))
        new.rename(self._store)

    # Requests ---------------------------------------------------------------------------------

    def _submit(self, wishes: Job, script: str) -> Said:
        """Queue a job; the wishes are attributes as qstat shows them."""
        queue = wishes["queue"] or self._site["queues"][0]
        if queue not in self._site["queues"]:
            return _error("qsub", UNKNOWN_QUEUE, "Unknown queue")
        known = {"ncpus", "mem", "ngpus", *self._site["features"], *self._site["licences"]}
        known |= {"select", "place", "walltime"}
        asked = {*wishes["Resource_List"], *_chunk(wishes)}
        if unknown := sorted(asked - known):
            return _error("qsub", UNKNOWN_RESOURCE, f"Unknown resource: {unknown[0]}")
        number = str(1 + max(map(int, self._jobs), default=0))
        (self._folder / f"{number}.sh").write_text(script)
        now = time.time()
        job = {
            **wishes,
            "queue": queue,
            "Job_Owner": f"{pwd.getpwuid(os.geteuid()).pw_name}@localhost",
            "job_state": "Q" if wishes["Hold_Types"] == "n" else "H",
            "server": SERVER,
            "ctime": time.ctime(now),
            "run_count": 0,
        }
        self._jobs[number] = job
        self._schedule()
        self._save()
        return 0, f"{number}.{SERVER}\n", ""

    def _tell_jobs(self, numbers: list[str], with_history: bool) -> Said:
        wrong = {n: self._missing(n, with_history=with_history) for n in numbers}
        complaints = [complaint for complaint in wrong.values() if complaint[0]]
        rows = {
            f"{number}.{SERVER}": {k: v for k, v in job.items() if not k.startswith("_")}
            for number, job in self._jobs.items()
            if (number in numbers or not numbers) and (with_history or job["job_state"] != "F")
        }
        tree: dict[str, Any] = {**_head(), **({"Jobs": rows} if rows else {})}
        status = complaints[-1][0] if complaints else 0
        return status, json.dumps(tree, indent=4), "".join(one[2] for one in complaints)

    def _missing(self, number: str, *, with_history: bool) -> Said:
        job = self._jobs.get(number)
        if job is None:
            return _error("qstat", UNKNOWN_JOB, f"Unknown Job Id {number}.{SERVER}")
        if job["job_state"] == "F" and not with_history:
            advice = "use -x or -H to obtain historical job information"
            return _error("qstat", FINISHED, f"{number}.{SERVER} Job has finished, {advice}")
        return 0, "", ""

    def _delete(self, numbers: list[str]) -> Said:
        said: Said = (0, "", "")
        for number in numbers:
            job = self._jobs.get(number)
            if job is None:
                said = _error("qdel", UNKNOWN_JOB, f"Unknown Job Id {number}.{SERVER}")
            elif job["job_state"] == "F":
                said = _error("qdel", FINISHED, f"Job has finished {number}.{SERVER}")
            elif job["job_state"] == "E":
                said = _error("qdel", BAD_STATE, f"Request invalid for state of job {number}")
            elif job["job_state"] in "QHW":
                job["job_state"] = "F"
            else:
                job["job_state"] = "E"
                with suppress(ProcessLookupError):
                    os.kill(job["_process"], signal.SIGUSR1)
        self._save()
        return said

    def _hold(self, numbers: list[str], is_over: bool) -> Said:
        said: Said = (0, "", "")
        for number in numbers:
            job = self._jobs.get(number)
            if job is None or job["job_state"] == "F":
                said = _error("qhold", UNKNOWN_JOB, f"Unknown Job Id {number}.{SERVER}")
                continue
            job["Hold_Types"] = "n" if is_over else "u"
            if job["job_state"] in "QH":
                job["job_state"] = "Q" if is_over else "H"
        self._save()
        return said

    def _signal(self, number: str, name: str) -> Said:
        """Suspend a job, resume it, or put it back into the queue."""
        job = self._jobs[number]
        match name:
            case "suspend" | "resume":
                is_over = name == "resume"
                job["job_state"] = "R" if is_over else "S"
                for child in _children(job["_process"]):
                    os.killpg(child, signal.SIGCONT if is_over else signal.SIGSTOP)
            case _:  # rerun, which the administrator may do with any job
                job["_is_rerun"] = True
                os.kill(job["_process"], signal.SIGUSR1)
        self._save()
        return 0, "", ""

    def _set_offline(self, is_offline: bool) -> Said:
        self._site["is_offline"] = is_offline
        return 0, "", ""

    def _tell_nodes(self) -> Said:
        has, used = self._site["has"], self._used()
        state = "free" if used["ncpus"] < has["ncpus"] else "job-busy"
        node = {
            "Mom": "localhost",
            "ntype": "PBS",
            "state": "offline" if self._site.get("is_offline") else state,
            "pcpus": has["ncpus"],
            "resources_available": {
                "arch": "linux",
                "host": "m0",
                "vnode": "m0",
                **dict.fromkeys(self._site["features"], "True"),
                **{k: f"{v}kb" if k == "mem" else v for k, v in has.items()},
            },
            "resources_assigned": {k: f"{used[k]}kb" if k == "mem" else used[k] for k in has},
        }
        return 0, json.dumps({**_head(), "nodes": {"m0": node}}, indent=4), ""

    # Scheduling -------------------------------------------------------------------------------

    def _used(self) -> dict[str, int]:
        used = dict.fromkeys((*self._site["has"], *self._site["licences"]), 0)
        for job in self._jobs.values():
            if job["job_state"] in "RES":
                for name, count in _needs(job).items():
                    used[name] = used.get(name, 0) + count
        return used

    def _schedule(self) -> None:
        """Start what fits, and comment on the others."""
        total = {**self._site["has"], **self._site["licences"]}
        for number, job in self._jobs.items():
            if job["job_state"] != "Q" or self._site.get("is_offline"):
                continue
            used = self._used()
            comment = ""
            for name, count in _needs(job).items():
                left = total[name] - used[name]
                if count > left:
                    start = "Can Never Run" if count > total[name] else "Not Running"
                    figures = f"(R: {count} A: {left} T: {total[name]})"
                    comment = f"{start}: Insufficient amount of resource: {name} {figures}"
                    if count > total[name]:
                        break
            if not comment:
                self._start(number, job)
            elif job.get("comment") != comment:
                job["comment"] = comment
                self._save()

    def _start(self, number: str, job: Job) -> None:
        limit_s = job["Resource_List"].get("walltime", "0")
        program = Path(__file__).with_name("machine.py")
        script, end = self._folder / f"{number}.sh", self._folder / f"{number}.end"
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", program, script, end, limit_s],
            env={**os.environ, "PBS_JOBID": f"{number}.{SERVER}", "PBS_ENVIRONMENT": "PBS_BATCH"},
            cwd=os.environ.get("HOME", "/"),
            start_new_session=True,
        )
        job.update(
            job_state="R",
            run_count=job["run_count"] + 1,
            exec_host=f"m0/0*{_chunk(job)['ncpus']}",
            stime=time.ctime(),
            comment=f"Job run at {time.ctime()} on (m0)",
            _process=process.pid,
            _began_at=time.time(),
        )
        self._save()

    def _reap(self) -> None:
        for number, job in self._jobs.items():
            end = self._folder / f"{number}.end"
            if job["job_state"] not in "RES" or not end.exists():
                continue
            used_s = int(time.time() - job["_began_at"])
            job["resources_used"] = {
                "walltime": f"{used_s // 3600:02}:{used_s // 60 % 60:02}:{used_s % 60:02}"
            }
            if job.pop("_is_rerun", False):
                job["job_state"] = "Q"
            else:
                job["job_state"], job["Exit_status"] = "F", int(end.read_text())
            end.unlink()
            with suppress(ChildProcessError):
                os.waitpid(job["_process"], 0)
            self._save()


def _chunk(job: Job) -> dict[str, str]:
    """Return the resources of the one chunk of a job."""
    count, *parts = job["Resource_List"].get("select", "1:ncpus=1").split(":")
    assert count == "1", "the imitation has one machine"
    return dict(part.split("=", 1) for part in parts)


def _needs(job: Job) -> dict[str, int]:
    """Return what a job consumes; memory in kB."""
    found = {"ncpus": int(_chunk(job).get("ncpus", "1"))}
    for name, value in {**job["Resource_List"], **_chunk(job)}.items():
        if name == "mem":
            found["mem"] = int(value.removesuffix("mb")) * 1024
        elif value.isdigit() and name != "walltime":
            found[name] = int(value)
    return found


def _children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in text.split()]


def _head() -> dict[str, Any]:
    return {"timestamp": int(time.time()), "pbs_version": "23.06.06", "pbs_server": SERVER}


def _error(command: str, number: int, text: str) -> Said:
    return number & 0xFF, "", f"{command}: {text}\n"


if __name__ == "__main__":
    # A new process of a job inherits it, and takes no order before it can obey.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    asyncio.run(Server(Path(sys.argv[1])).run())
