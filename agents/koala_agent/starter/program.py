"""The program of a claim: command, environment, files and layout over machines."""

from __future__ import annotations

import errno
import math
import os
import sys

from koala_agent.starter.batch_rules import allocation, rules_of
from koala_agent.starter.compat import dataclass, read_fields, to_count, to_list, to_object
from koala_agent.starter.process_tree import pop_tag
from koala_agent.starter.procfs import own_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_FOLDER = ".koala"
SPECIFICATION = "spec.json"
"""File in the state folder of a claim."""


@dataclass(frozen=True, kw_only=True)
class Main:
    """A main process: its number in the component, the process whose environment and files it has,
    and the verb of `mpi_launchers` that it runs; no verb for the program itself.
    """

    index: int
    process: int
    verb: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Specification:
    """Content of spec.json: what the agent tells a starter. A field that is missing there has its
    default; those of the program have the names that they have on the link.

    `agents` are the addresses of the agent, or `mailbox` is the folder of messages for it; a
    relative one begins at the home directory. `job_module` is the text of `koala.job` if the job
    `is_malleable`. `inputs` are the names of all input files in the folder `inputs`. The starter
    `fetches` them, and the files that were `staged`, where the agent cannot show them; files are
    `shared` or brought.
    """

    claim: str
    secret: str = ""
    agents: tuple[tuple[str, int], ...] = ()
    mailbox: str = ""
    folder: str
    bundle: dict[str, object]
    shared: bool = True
    batch: dict[str, object] | None = None
    launcher: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    fetches: bool = False
    hold_s: float = 0.0
    hold_lease_s: float = 0.0
    run_lease_s: float = 0.0
    kill_s: float = 0.0
    no_barrier: bool = False
    progress_s: float = 0.0
    executable: str
    arguments: tuple[str, ...] = ()
    directory: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    job_name: str = ""
    is_malleable: bool = False
    resize_signal: str = ""
    job_module: str = ""
    processes: int = 1
    cpus_per_task: int = 1
    gpus: int = 0
    job_type: str = "multiple"
    wall_time_s: float = 0.0
    cpu_time_s: float = 0.0
    memory_max_mb: float = 0.0
    output_files: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    staged: tuple[tuple[str, int], ...] = ()
    ports: tuple[tuple[str, int], ...] = ()


class ClaimProgram:
    """Program of a claim, from its specification, and the checks before the check-in.

    `machine` counts the nodes of the component, 0 being the starter's. `hosts` are those
    machines, detected if not given.
    """

    def __init__(
        self,
        spec: dict[str, object],
        *,
        machine: int = 0,
        hosts: tuple[tuple[str, int], ...] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.spec = read_fields(Specification, spec)
        self.folder = self.spec.folder
        self.state_folder = os.path.join(self.folder, STATE_FOLDER)
        self.directory = os.path.join(self.folder, self.spec.directory)
        self.processes = self.spec.processes
        self.rules = rules_of(spec)
        self.machine = machine
        if hosts is None:
            hosts = allocation(self.rules, os.environ, cpus_per_task=self.spec.cpus_per_task)
        self.hosts = hosts
        self.layout = layout(self.spec.job_type, self.processes, self.hosts)
        self.mains = self.layout[machine]
        self.ranks = self.processes if self.spec.job_type == "mpi" else 0
        self.is_launched = bool(self.ranks and self.spec.launcher)
        if environment is None:
            environment = own_environment()
        self.environment = {**environment, **dict(self.spec.environment)}
        self.tag = pop_tag(self.environment)
        self.environment["PWD"] = self.directory.rstrip("/") or "/"  # and not the agent's
        self.environment["KOALA_CLAIM"] = self.spec.claim
        self.environment["KOALA_NAME"] = self.spec.job_name
        self.environment["KOALA_GPUS"] = str(self.spec.gpus)
        self.solo = self.spec.bundle
        if self.hosts:  # without other components no bundle with hosts arrives
            for member in to_list(self.solo["members"]):
                names, counts = ([host[i] for host in self.hosts] for i in (0, 1))
                to_object(member).update(hosts=names, slots=counts)
        self.open_files = 1024
        self._streams = (self.spec.stdin, self.spec.stdout, self.spec.stderr)
        self.inputs = os.path.join(self.folder, "inputs")
        if self.spec.inputs:
            self.environment["KOALA_INPUTS"] = self.inputs
            self.environment["KOALA_INPUT"] = os.path.join(self.inputs, self.spec.inputs[0])
        self.path = self._find()

    def problem(self) -> str:
        """Return the reason why the program cannot be started here; empty if none is known."""
        stdin = self.stream(0, 0)
        if not os.path.isdir(self.directory):
            return f"{self.directory}: no such directory"
        if not self.path:
            where = self.environment.get("PATH", "")
            return f"{self.spec.executable}: not found in PATH={where}"
        if self.is_staged and self.spec.fetches:
            return ""  # it comes before the barrier
        if os.path.isdir(self.path):
            return f"{self.path}: {os.strerror(errno.EISDIR)}"
        if not os.path.isfile(self.path):
            return f"{self.path}: {os.strerror(errno.ENOENT)}"
        if not os.access(self.path, os.X_OK):
            return f"{self.path}: {os.strerror(errno.EACCES)}"
        if not os.access(stdin, os.R_OK):
            return f"standard input {stdin} cannot be read"
        return ""

    def command(self, main: Main) -> list[str]:
        """Return the command line of a main process."""
        if main.verb:
            return [*again(), main.verb[0], self.state_folder, *main.verb[1:]]
        return [self.path, *self.spec.arguments]

    def bundle_variables(self, bundle: dict[str, object], main: Main) -> dict[str, str]:
        """Return the variables of the bundle for a main process."""
        bundle_variables = rendezvous(bundle, main.process)
        bundle_variables["KOALA_PROGRESS"] = self.progress_file(main.process)
        if len(self.layout) > 1 and not main.verb:
            bundle_variables.update(
                self.rules.variables(
                    process=main.process,
                    local=int(bundle_variables["LOCAL_RANK"]),
                    host=self.machine,
                    processes=self.processes,
                )
            )
        return bundle_variables

    def stream(self, number: int, process: int) -> str:
        """Return the path of a process's standard input (0), output (1) or error (2)."""
        name = self._streams[number]
        if number == 0:
            return os.path.join(self.directory, name) if name else os.devnull
        if not name:
            kind = "stdout" if number == 1 else "stderr"
            return os.path.join(self.folder, f"{kind}.{process}")
        path = os.path.join(self.directory, name)
        return path if self.processes == 1 else f"{path}.{process}"

    def open_stream(self, number: int, process: int) -> int:
        """Open that file and return the descriptor. Raises OSError.

        A file that the job does not name is private; one that it names has the mode of
        its umask.
        """
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.open(self.stream(number, process), flags, self.stream_mode(number))

    def make_folders(self) -> None:
        """Make the folders of outputs that the job names from its working directory on. Raises
        OSError.
        """
        for name in self._streams[1:]:
            if "/" in name and not name.startswith("/"):
                os.makedirs(os.path.dirname(os.path.join(self.directory, name)), exist_ok=True)

    def stream_mode(self, number: int) -> int:
        """Return the mode of that file if it is new."""
        return 0o666 if self._streams[number] else 0o600

    def limits(self) -> tuple[int, int, int]:
        """Return the limits of open files, processor-seconds and bytes of data; 0 for none."""
        memory_bytes = int(self.spec.memory_max_mb * 1024 * 1024)
        return self.open_files, math.ceil(self.spec.cpu_time_s), memory_bytes

    def limit(self) -> None:
        """Set the resource limits of this process, right before exec.

        The memory limit is RLIMIT_DATA: a limit on address space would forbid programs that only
        reserve it.
        """
        import resource  # noqa: PLC0415 - late: the check-in does not wait for it

        _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        open_files, cpu_s, data_bytes = self.limits()
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, hard))
        for kind, limit in ((resource.RLIMIT_CPU, cpu_s), (resource.RLIMIT_DATA, data_bytes)):
            _soft, hard = resource.getrlimit(kind)
            if limit > 0:
                allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
                resource.setrlimit(kind, (allowed, hard))

    def progress_file(self, process: int) -> str:
        """Return the path of the file to which a process may write its progress, a number."""
        return os.path.join(self.state_folder, f"progress.{process}")

    @property
    def is_staged(self) -> bool:
        """True when the program is one of the files that were staged with it."""
        return any(
            name == os.path.normpath(self.spec.executable) for name, _mode in self.spec.staged
        )

    def _find(self) -> str:
        name = self.spec.executable
        if self.is_staged:
            return os.path.join(self.folder, name)
        if "/" in name:
            return os.path.join(self.directory, name)
        for folder in self.environment.get("PATH", os.defpath).split(os.pathsep):
            path = os.path.join(self.directory, folder or ".", name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        return ""


def layout(
    job_type: str, processes: int, hosts: tuple[tuple[str, int], ...]
) -> tuple[tuple[Main, ...], ...]:
    """Assign the main processes to the nodes."""
    slots = [count for _name, count in hosts]
    counts = processes_by_node({"processes": processes, "slots": slots}) if slots else [processes]
    if job_type == "mpi":
        lead = Main(index=0, process=0, verb=("lead",))
        nodes = range(len(counts))
        first, *others = [(Main(index=i + 1, process=0, verb=("node", str(i))),) for i in nodes]
        return ((lead, *first), *others)
    before, mains = 0, []
    for count in counts:
        numbers = range(before, before + count)
        mains.append(tuple(Main(index=number, process=number) for number in numbers))
        before += count
    return tuple(mains)


def again() -> list[str]:
    """Return the command that runs this starter again, for a verb of `mpi_launchers`."""
    return [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0])]


def processes_by_node(member: dict[str, object]) -> list[int]:
    """Return the number of a member's processes on each machine that has any, filled one by one."""
    left = to_count(member["processes"])
    counts = []
    for slots in to_list(member["slots"]):
        count = min(left, to_count(slots))
        if count > 0:
            counts.append(count)
        left -= count
    if left:  # more processes than processors: the last machine has them
        counts = [*counts[:-1], (counts[-1] if counts else 0) + left]
    return counts


def rendezvous(bundle: dict[str, object], process: int) -> dict[str, str]:
    """Return a process's rendezvous variables from the bundle.

    A node is a machine that runs processes of the job.
    """
    members = [to_object(member) for member in to_list(bundle["members"])]
    index = to_count(bundle["index"])
    master = to_object(bundle["master"])
    first = sum(to_count(member["processes"]) for member in members[:index])
    sizes = [to_count(member["processors"]) for member in members]
    nodes = [processes_by_node(member) for member in members]
    local, node = process, 0
    while node + 1 < len(nodes[index]) and local >= nodes[index][node]:
        local -= nodes[index][node]
        node += 1
    return {
        "KOALA_JOB": str(bundle["job"]),
        "KOALA_ATTEMPT": str(bundle["attempt"]),
        "KOALA_COMPONENT": str(members[index]["component"]),
        "KOALA_LABEL": str(bundle["label"]),
        "KOALA_SITE": str(members[index]["site"]),
        "KOALA_PROCESS": str(process),
        "KOALA_COUNT": str(sizes[index]),
        "KOALA_OFFSET": str(sum(sizes[:index])),
        "KOALA_TOTAL": str(sum(sizes)),
        "MASTER_ADDR": str(master["address"]),
        "MASTER_PORT": str(master["port"]),
        "NNODES": str(sum(len(counts) for counts in nodes)),
        "NODE_RANK": str(sum(len(counts) for counts in nodes[:index]) + node),
        "WORLD_SIZE": str(bundle["world_size"]),
        "RANK": str(first + process),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(nodes[index][node]),
    }
