"""Launchers that a starter runs as the main processes of a component with jobType=mpi.

`python starter.py VERB STATE ...`, STATE being the claim's `.koala` folder on this machine. They
are forked before the barrier like any program, and released when it opens.

- `lead`: on the first member with jobType=mpi the launcher of all ranks, elsewhere nothing.
- `node N`: on each machine of the component, N among them, the launcher's proxy there.
- `rank`: started by launcher or proxy: runs the program as the process with that rank.

One MPI_COMM_WORLD over components at different sites is MPICH's: `mpiexec -launcher manual` starts
nothing, but prints a command for each machine, which dials back to it. The lead puts these
into the key-value store, and each machine runs its own. A component's environment and paths are
unknown at another one: a rank begins with a shell that runs `rank` as its own site needs.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys

from koala_agent.starter import process_tree
from koala_agent.starter.batch_rules import rules_of
from koala_agent.starter.compat import (
    boot_now,
    to_count,
    to_exit_code,
    to_list,
    to_object,
    to_shell,
    to_texts,
)
from koala_agent.starter.node.state_machine import POLL_S
from koala_agent.starter.program import (
    SPECIFICATION,
    ClaimProgram,
    again,
    processes_by_node,
    rendezvous,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from koala_agent.starter.batch_rules import BatchRules

    Json = dict[str, object]

WAIT_S = 120.0
"""Time limit for the commands of the lead: until then all have passed, or one has failed and the
others are being stopped."""
MPIEXEC = ("mpiexec.hydra", "mpiexec.mpich", "mpiexec")
RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
"""Variables of MPI launchers with the rank of a process."""
FIRST = "KOALA_MPI_FIRST"
"""The rank in MPI_COMM_WORLD of the component's first process."""
WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
RANK = 'eval "$KOALA_RANK"'


class ClaimFolder:
    """Files that the starter wrote to the claim's folder."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.spec = self.read(SPECIFICATION)
        self.bundle = self.read("bundle.json")
        self.launch = self.read("launch.json")
        self.index = to_count(self.bundle["index"])
        self.members = [dict(to_object(member)) for member in to_list(self.bundle["members"])]
        self.member = self.members[self.index]
        self.world = [i for i, member in enumerate(self.members) if member["job_type"] == "mpi"]

    def read(self, name: str) -> Json:
        """Read one of its files. Raises OSError."""
        with open(os.path.join(self.state, name), "rb") as file:
            return to_object(json.load(file))

    def rank_command(self) -> list[str]:
        """Return the command that runs the program on a machine where this folder is."""
        return [*again(), "rank", self.state]

    def program(self, name: str) -> str:
        """Find a program of the site, whatever the job made of PATH. Raises FileNotFoundError."""
        places = (os.environ.get("PATH"), str(self.launch["path"]))
        for path in places:
            path_there = shutil.which(name, path=path)
            if path_there:
                return path_there
        raise FileNotFoundError(f"{name}: not found in PATH={places[0]}")

    def before(self, index: int) -> int:
        """Count the ranks of MPI_COMM_WORLD before this member's."""
        return sum(to_count(self.members[i]["processes"]) for i in self.world if i < index)

    def nodes_before(self, index: int) -> int:
        """Count the nodes of MPI_COMM_WORLD before this member's."""
        return sum(len(processes_by_node(self.members[i])) for i in self.world if i < index)


# Ranks --------------------------------------------------------------------------------------------


def rank(claim_folder: ClaimFolder) -> int:
    """Run the program as one rank, and end all that it leaves behind.

    Its environment, directory, files and limits are the same as when the starter runs it itself.
    """
    process = _own_rank(rules_of(claim_folder.spec))
    # A launcher of the site has passed the environment on: its changes take precedence.
    os.environ.update({**_pairs(claim_folder.launch["environment"]), **os.environ})
    program = ClaimProgram(claim_folder.spec)
    environment = {**program.environment, **rendezvous(claim_folder.bundle, process)}
    environment["KOALA_BUNDLE"] = os.path.join(claim_folder.state, "bundle.json")
    kv = _own_kv(claim_folder)
    for name in ("KOALA_KV", "KOALA_RANK", FIRST):
        environment.pop(name, None)
    if kv:
        environment["KOALA_KV"] = kv
    os.chdir(program.directory)
    for descriptor in range(3):
        opened = program.open_stream(descriptor, process)
        os.dup2(opened, descriptor)
        os.close(opened)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    process_tree.become_subreaper()
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        program.limit()
        os.execve(program.path, [program.path, *program.spec.arguments], environment)
    os.closerange(3, 4096)  # a launcher's own pipes are the program's alone
    status = _supervise(pid, program.spec.kill_s)
    if kv:  # before the launcher sums up the statuses of all
        os.environ["KOALA_KV"] = kv
        _ask({"op": "ended", "rank": process, "status": status})
    return _status(status)


def _own_kv(claim_folder: ClaimFolder) -> str:
    """Return the path of this machine's key-value socket.

    A launcher may have passed on the path of another node's, which does not work here.
    """
    for path in (os.environ.get("KOALA_KV", ""), str(claim_folder.launch["kv"])):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            if path and connection.connect_ex(path) == 0:
                return path
    return ""


def _supervise(pid: int, kill_s: float) -> int:
    """Wait until the program and all that it started are gone; return its status, or minus the
    signal.

    What is left when it ends, or when the site ends it, gets TERM, and KILL after `kill_s`.
    """
    status = None
    kill_at = None
    while True:
        try:
            ended, how = os.waitpid(-1, os.WNOHANG)
            while ended:
                if ended == pid:
                    status = to_exit_code(how)
                ended, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if status is not None and kill_at is None:
            _signal_all(signal.SIGTERM)
            kill_at = boot_now() + kill_s
        elif kill_at is not None and boot_now() >= kill_at:
            _signal_all(signal.SIGKILL)
        wait_s = POLL_S if kill_at is not None else 3600.0
        received = signal.sigtimedwait(WATCHED, wait_s)
        if received is not None and received.si_signo != signal.SIGCHLD and kill_at is None:
            _signal_all(signal.SIGTERM)
            kill_at = boot_now() + kill_s
    return status if status is not None else -signal.SIGKILL


def _signal_all(number: int) -> None:
    for pid in process_tree.descendants():
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _own_rank(rules: BatchRules) -> int:
    """Return our rank, as the MPI launcher says, or else the batch system. Raises OSError."""
    names = (*RANKS, *rules.rank_variables)
    for name in names:
        if name in os.environ:
            return int(os.environ[name]) - int(os.environ.get(FIRST, "0"))
    raise OSError(f"no launcher says which rank this is: none of {', '.join(names)} is set")


# MPI ---------------------------------------------------------------------------------------------


def lead(claim_folder: ClaimFolder) -> int:
    """Run the launcher of all ranks."""
    if claim_folder.index != claim_folder.world[0]:
        return 0
    launcher = to_texts(claim_folder.spec["launcher"])
    if launcher and len(claim_folder.world) == 1:
        _become([*_fill(launcher, claim_folder), *claim_folder.rank_command()])
    hosts = [
        f"m{i}n{node}:{count}"  # never resolved; they only have to differ
        for i in claim_folder.world
        for node, count in enumerate(processes_by_node(claim_folder.members[i]))
    ]
    ranks = sum(to_count(claim_folder.members[i]["processes"]) for i in claim_folder.world)
    port = to_count(to_object(claim_folder.bundle["master"])["port"])
    if len(claim_folder.world) > 1:  # the port that the others have probed
        os.environ["MPIEXEC_PORT_RANGE"] = f"{port}:{port}"
    mpiexec = subprocess.Popen(
        [
            *(
                _mpiexec(claim_folder),
                "-launcher",
                "manual",
                "-rmk",
                "user",
                "-genvnone",
                "-wdir",
                "/",
            ),
            *("-hosts", ",".join(hosts), "-n", str(ranks), "/bin/sh", "-c", RANK),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert mpiexec.stdout is not None
    node = 0
    for line in mpiexec.stdout:
        word, _colon, command = line.decode("utf-8", "replace").strip().partition(":")
        if word == "HYDRA_LAUNCH":
            _ask({"op": "put", "name": f"koala.mpi/{node}", "value": command.strip()})
            node += 1
        elif word != "HYDRA_LAUNCH_END":
            os.write(1, line)
    return _status(mpiexec.wait())


def _status(status: int) -> int:
    """Convert a status to the shell's convention."""
    return status if status >= 0 else 128 - status


def _mpiexec(claim_folder: ClaimFolder) -> str:
    for name in MPIEXEC:
        try:
            return claim_folder.program(name)
        except FileNotFoundError:
            continue
    return claim_folder.program(MPIEXEC[-1])


def _fill(launcher: list[str], claim_folder: ClaimFolder) -> list[str]:
    """Fill in the site's launcher command for this component."""
    counts = processes_by_node(claim_folder.member)
    hosts = ",".join(f"{h}:{n}" for h, n in zip(to_texts(claim_folder.member["hosts"]), counts))
    known = {"{processes}": str(claim_folder.member["processes"]), "{hosts}": hosts}
    filled = []
    for word in launcher:
        for name, value in known.items():
            word = word.replace(name, value)  # noqa: PLW2901
        filled.append(word)
    return [claim_folder.program(filled[0]), *filled[1:]]


def node(claim_folder: ClaimFolder, number: int) -> None:
    """Run the proxy of one machine, by the command that the lead got for it."""
    if len(claim_folder.world) == 1 and claim_folder.spec["launcher"]:
        return
    name = f"koala.mpi/{claim_folder.nodes_before(claim_folder.index) + number}"
    answer = _ask({"op": "get", "name": name, "wait_s": WAIT_S})
    command = shlex.split(str(answer["value"]))
    if not os.access(command[0], os.X_OK):  # installed elsewhere at this site
        command[0] = claim_folder.program(os.path.basename(command[0]))
    if claim_folder.index != claim_folder.world[0]:
        leader = str(claim_folder.members[claim_folder.world[0]]["address"])
        _redirect(command, leader)
    variables = {
        "KOALA_RANK": to_shell(["exec", *claim_folder.rank_command()]),
        FIRST: str(claim_folder.before(claim_folder.index)),
    }
    os.environ.update(variables)
    _become(command)


def _redirect(command: list[str], address: str) -> None:
    """Replace the lead's address by the one in the bundle, under which other sites reach it."""
    at = command.index("--control-port") + 1
    port = command[at].rpartition(":")[2]
    command[at] = f"{address}:{port}"


def _ask(request: Json) -> Json:
    """Send one request to the key-value socket. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(os.environ["KOALA_KV"])
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as lines:
            answer = to_object(json.loads(lines.readline() or b"{}"))
    if not answer.get("ok"):
        raise OSError(f"{request['op']} {request['name']}: {answer.get('error', 'no answer')}")
    return answer


def _become(command: list[str]) -> NoReturn:
    os.execv(command[0], command)


def _pairs(value: object) -> dict[str, str]:
    return {str(name): str(text) for name, text in to_object(value).items()}


def main(arguments: list[str]) -> int:
    """Run one verb; errors go to standard error, which the user sees."""
    verb, state, *rest = arguments[1:]
    number = rest[0] if rest else ""
    try:
        claim_folder = ClaimFolder(state)
        if verb == "rank":
            return rank(claim_folder)
        if verb == "lead":
            return lead(claim_folder)
        if verb == "node":
            node(claim_folder, int(number))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"koala {verb}: {error}\n")
        return 127
    return 0
