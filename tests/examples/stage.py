"""A stage that runs the example programs without Koala: bundles, a key-value store, real processes.

Speaks the contract between a starter and the programs it runs, as `examples/README.md` tells it to
their authors: environment, bundle, and JSON lines on a UNIX socket. A `Stage` ends every process it
started, whatever the test did.
"""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from koala_agent.lrm.claim_processes import SCOPE_VARIABLE

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LIMIT_S = 120.0
"""Longest that a test waits for a program; far above what it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Tell how one process ended."""

    status: int
    output: str
    errors: str


class Exchange:
    """A key-value exchange as the contract has it: first value wins, a get may wait."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, str] = {}
        self.number = -1
        self._changed = threading.Condition()
        exchange = self

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    answer = exchange.answer(json.loads(line))
                    try:
                        self.wfile.write(json.dumps(answer).encode() + b"\n")
                    except OSError:
                        return  # the program ended while it waited

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True
            request_queue_size = 64

        self._server = Server(str(path), Session)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request, waiting as long as it says."""
        if request["op"] == "world":
            with self._changed:
                self._changed.wait_for(lambda: self.number > request["after"], request["wait_s"])
                return {"ok": True, "number": self.number}
        name = request["name"]
        with self._changed:
            if request["op"] == "put":
                if self.values.setdefault(name, request["value"]) != request["value"]:
                    return {"ok": False, "error": f"{name!r} has another value"}
                self._changed.notify_all()
                return {"ok": True}
            wait_s = request["wait_s"]
            if self._changed.wait_for(lambda: name in self.values, wait_s):
                return {"ok": True, "value": self.values[name]}
            return {"ok": False, "error": f"no value for {name!r} after {wait_s:.3g} s"}

    def changed(self) -> None:
        """Let those know that wait for the next members of the job."""
        with self._changed:
            self.number += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.path.unlink(missing_ok=True)


class Stage:
    """The members of one attempt, each with so many processes, at sites of their own."""

    SITES = ("vu", "delft", "leiden", "amsterdam", "utrecht")

    def __init__(
        self, folder: Path, processes: Sequence[int], *, components: Iterable[int] | None = None
    ) -> None:
        self.folder = folder
        self.exchange = Exchange(folder / "kv")
        self.components = list(range(len(processes)) if components is None else components)
        self.members = [
            {
                "index": index,
                "component": component,
                "label": f"c{component}",
                "site": self.SITES[component],
                "processors": count,
                "processes": count,
                "hosts": ["127.0.0.1"],
                "address": "127.0.0.1",
            }
            for index, (component, count) in enumerate(zip(self.components, processes, strict=True))
        ]
        self.processes = list(processes)
        self.running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self.running:
            process.kill()
            process.communicate()
        self.exchange.close()

    def work_folder(self, index: int) -> Path:
        """The claim's folder of a member: where its programs run and leave their output."""
        path = self.folder / f"claim-{index}"
        path.mkdir(exist_ok=True)
        return path

    def environment(self, index: int, process: int) -> dict[str, str]:
        """Make the environment that the starter of member `index` gives to one of its processes."""
        world_size = sum(self.processes)
        bundle = {
            "version": 1,
            "job": "j1",
            "attempt": 1,
            "index": index,
            "label": self.members[index]["label"],
            "members": self.members,
            "master": {"address": "127.0.0.1", "port": 29500},
            "world_size": world_size,
        }
        bundle_path = self.folder / f"bundle-{index}.json"
        bundle_path.write_text(json.dumps(bundle), encoding="utf-8")
        return {
            "PATH": os.environ.get("PATH", ""),
            "OPENBLAS_NUM_THREADS": "1",
            "KOALA_JOB": "j1",
            "KOALA_ATTEMPT": "1",
            "KOALA_CLAIM": f"j1/1/{self.components[index]}/1",
            # Else it is of any local manager of this machine that has a claim of this name.
            SCOPE_VARIABLE: str(self.folder),
            "KOALA_COMPONENT": str(self.components[index]),
            "KOALA_LABEL": f"c{self.components[index]}",
            "KOALA_PROCESS": str(process),
            "KOALA_BUNDLE": str(bundle_path),
            "KOALA_KV": str(self.exchange.path),
            **({"KOALA_WORLD": str(world)} if (world := self._world(index)).exists() else {}),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
            "NNODES": str(len(self.members)),
            "NODE_RANK": str(index),
            "WORLD_SIZE": str(world_size),
            "RANK": str(sum(self.processes[:index]) + process),
            "LOCAL_RANK": str(process),
        }

    def resize(self, present: Iterable[int], leaving: Iterable[int] = ()) -> None:
        """Let these members, all of one process, know that they are the job from now on; those that
        leave are asked to."""
        chosen = list(present)
        names = ("component", "label", "site", "processors", "processes", "address")
        components = [
            {**{name: self.members[index][name] for name in names}, "port": 29500, "first_rank": at}
            for at, index in enumerate(chosen)
        ]
        for index in chosen:
            world = {
                "number": self.exchange.number + 1,
                "component": self.components[index],
                "components": components,
                "world_size": len(chosen),
                "leave_by": 4e9 if index in leaving else None,
            }
            draft = self._world(index).with_suffix(".new")
            draft.write_text(json.dumps(world), encoding="utf-8")
            draft.replace(self._world(index))
        self.exchange.changed()

    def _world(self, index: int) -> Path:
        return self.folder / f"world-{index}.json"

    def start(
        self, program: str, *arguments: str, ranks: Iterable[int] | None = None, **more: str
    ) -> None:
        """Start a program of the examples as all ranks, or as some of them."""
        places = [
            (index, process)
            for index, count in enumerate(self.processes)
            for process in range(count)
        ]
        for rank in range(len(places)) if ranks is None else ranks:
            index, process = places[rank]
            self.running.append(
                subprocess.Popen(
                    [sys.executable, str(EXAMPLES / program), *arguments],
                    cwd=self.work_folder(index),
                    env=self.environment(index, process) | more,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )

    def has_met(self, rank: int) -> None:
        """Return when a rank, by its first line, says that it works."""
        output = self.running[rank].stdout
        assert output is not None
        assert output.readline().startswith(f"rank {rank} ")

    def until(self, rank: int, words: str) -> list[str]:
        """Return what a rank prints up to the line with these words."""
        output = self.running[rank].stdout
        assert output is not None
        lines = []
        while line := output.readline():
            lines.append(line)
            if words in line:
                return lines
        errors = self.running[rank].communicate()[1]
        raise AssertionError(f"rank {rank} has ended without {words!r}: {lines} {errors}")

    def finish(self) -> list[Ended]:
        """Wait for all processes to end by themselves."""
        ended = []
        for process in self.running:
            output, errors = process.communicate(timeout=LIMIT_S)
            ended.append(Ended(status=process.returncode, output=output, errors=errors))
        return ended

    def result(self, index: int = 0) -> dict[str, Any]:
        """The result.json that a member left."""
        path = self.work_folder(index) / "result.json"
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return result

    def has_result(self) -> bool:
        """True when a member left a result."""
        return any(self.folder.glob("claim-*/result.json"))
