"""Nodes and partitions, as `sinfo` and `scontrol` list them: idle processors and GPUs."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from koala.common.protocol.messages import Queue, SiteResources
from koala.errors import LocalManagerError
from koala_agent.lrm.dialect import is_count

NODE_COLUMNS = (
    ("NodeList", 80),
    ("Partition", 80),
    ("Available", 12),
    ("CPUsState", 32),
    ("StateComplete", 120),
    ("Memory", 20),
    ("AllocMem", 20),
    ("SocketCoreThread", 24),
    ("Gres", 200),
    ("GresUsed", 200),
    ("Features", 400),
)

NOT_THERE = re.compile(
    r"\b(?:down|drain|drained|draining|fail|failing|error|unknown|future|inval|invalid_reg|blocked"
    r"|not_responding|no_respond)\b|[*]"
)
"""Words and marks in the state of a node that is not available (sinfo(1), NODE STATE CODES)."""
RESERVED = re.compile(r"\b(?:maint|maintenance|reserved)\b|[$]")
"""Words and marks of a node that is kept for somebody, and works."""
KEPT = "reserved, or in maintenance"
NOT_YET = re.compile(r"\b(?:reboot\w*|power_down|powering_down)\b|[!%^@]")
"""Words and marks of a node that is available to jobs, though not soon."""
ENDING = re.compile(r"\b(?:comp|completing)\b")
"""Words of a node that ends a job, with its epilog: no job starts there before it has ended it,
also on the processors that nobody has."""
ASLEEP = re.compile(r"\b(?:power|power_up|powering_up|powered_down)\b|[~#]")
"""Words and marks of a node that is powered down, or on its way up: it wakes for a job."""
PLANNED = re.compile(r"\bplanned\b|-$")
"""Words and marks of a node that a job which waits will have next."""


class Whole(StrEnum):
    """Part of a node that a partition gives as a whole, also to a job that asks for less."""

    CPU = "cpu"
    CORE = "core"
    SOCKET = "socket"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules by which a partition shares its nodes.

    `memory_mb` is taken by each CPU of a job that asks for none, `host_memory_mb` on each node;
    both 0 where memory is not counted, infinite: all of the node. `host_cpus_max` are all that its
    jobs may have of a node. A node that is powered down is up after `wake_s`. Jobs of a higher
    `tier` come before those of others.
    """

    whole: Whole = Whole.CPU
    memory_mb: float = 0.0
    host_memory_mb: float = 0.0
    host_cpus_max: float = math.inf
    wake_s: float = 60.0
    tier: float = 1.0


class Partitions(dict[str, Rules]):
    """Rules by partition; one that appeared between two commands has the defaults."""

    def __missing__(self, name: str) -> Rules:
        return Rules()


def rules_of(partitions: str, config: str) -> Partitions:
    """Parse `scontrol -o show partition` and `scontrol show config`."""
    usual = dict(re.findall(r"^(\w+)\s*=\s*(\S+)", config, re.MULTILINE))
    found = Partitions()
    for line in partitions.splitlines():
        words = dict(re.findall(r"(\w+)=(\S*)", line))
        select = words.get("SelectTypeParameters", "")
        if select in ("", "NONE"):
            select = usual.get("SelectTypeParameters", "")
        is_linear = "linear" in usual.get("SelectType", "")
        is_whole = is_linear or words.get("OverSubscribe", "").upper() == "EXCLUSIVE"
        each_mb, host_mb = _usual_memory(words) or _usual_memory(usual) or (0.0, math.inf)
        counts_memory = "MEMORY" in usual.get("SelectTypeParameters", "").upper()
        found[words.get("PartitionName", "")] = Rules(
            whole=Whole.NODE if is_whole else _whole(select),
            memory_mb=each_mb if counts_memory else 0.0,
            host_memory_mb=host_mb if counts_memory and not each_mb else 0.0,
            host_cpus_max=_number(words, "MaxCPUsPerNode") or math.inf,
            tier=_number(words, "PriorityTier") or 1.0,
            wake_s=_number(words, "ResumeTimeout") or _number(usual, "ResumeTimeout") or 60.0,
        )
    return found


def _usual_memory(words: dict[str, str]) -> tuple[float, float] | None:
    """Return what a job that asks for no memory gets for each CPU, and on each node."""
    each_mb, host_mb = _number(words, "DefMemPerCPU"), _number(words, "DefMemPerNode")
    return (each_mb, host_mb) if each_mb or host_mb else None


def _whole(select: str) -> Whole:
    for whole in (Whole.SOCKET, Whole.CORE):
        if f"CR_{whole}".upper() in select.upper():
            return whole
    return Whole.CPU


def _number(words: dict[str, str], key: str) -> float:
    """Return a number of a configuration; 0 for none, and for a word as UNLIMITED."""
    return float(words[key]) if is_count(words.get(key, "")) else 0.0


def resources_of(nodes: Collection[Node], rules: Partitions, licenses: str) -> SiteResources:
    """Make the resources of all partitions, of nodes that are down too: they may come back."""
    found = re.findall(r"LicenseName=(\S+) Total=([0-9]{1,9})", licenses)
    return SiteResources(
        gpus=sum(node.gpus for node in nodes),
        host_gpus=max((node.gpus for node in nodes), default=0),
        gpu_types=tuple(sorted({kind for node in nodes for kind in node.gpu_types})),
        host_memory_mb=max((node.memory_mb for node in nodes), default=0),
        features=tuple(sorted({feature for node in nodes for feature in node.features})),
        licenses=tuple((name, int(count)) for name, count in found),
        queues=tuple(Queue(name=name) for name in sorted(rules)),
        is_complete=True,
    )


def gpus_in(gres: str) -> Iterator[tuple[str, int]]:
    """List types and numbers of GPUs in the generic resources of a node, such as
    `gpu:a100:2(S:0-1),shard:4` or, of those in use, `gpu:(null):1(IDX:0)`."""
    for kind, count in re.findall(r"(?:^|,)gpu(?::([^:,]+))?:([0-9]{1,6})(?=\(|,|$)", gres):
        yield ("" if kind == "(null)" else kind), int(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Row of `sinfo -N`: a node in a partition. `lack` are words for why its idle processors are
    not to be had, empty where they are; `cores` and `sockets` are 0 where they are unknown."""

    name: str
    partition: str
    is_default: bool
    is_there: bool
    is_asleep: bool
    is_planned: bool
    is_ending: bool
    lack: str
    allocated: int
    idle: int
    missing: int
    total: int
    cores: int
    sockets: int
    memory_mb: int
    free_mb: float
    gpus: int
    gpus_used: int
    gpu_types: tuple[str, ...]
    features: tuple[str, ...]

    @classmethod
    def read(cls, line: str) -> Node:
        """Parse a row. Raises LocalManagerError."""
        name, partition, available, cpus, state, memory, used, shape, gres, gres_used, features = (
            split_columns(line, NODE_COLUMNS)
        )
        counts = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})/([0-9]{1,7})/([0-9]{1,7})", cpus)
        if counts is None:
            message = f"sinfo: {line.strip()[:200]!r} has no count of processors"
            raise LocalManagerError(message, transient=True)
        allocated, idle, other, total = (int(count) for count in counts.groups())
        state = state.lower()
        is_known = is_count(memory) and is_count(used)
        sockets, cores = (
            int(part) if is_count(part) else 0 for part in (*shape.split(":"), "")[:2]
        )
        return cls(
            name=name,
            partition=partition.removesuffix("*"),
            is_default=partition.endswith("*"),
            is_there=NOT_THERE.search(state) is None,
            is_asleep=ASLEEP.search(state) is not None,
            is_planned=PLANNED.search(state) is not None,
            is_ending=ENDING.search(state) is not None,
            lack=_lack(state, available, partition.removesuffix("*")),
            allocated=allocated,
            idle=idle,
            missing=other,
            total=total - other,
            cores=sockets * cores,
            sockets=sockets,
            memory_mb=int(memory) if is_known else 0,
            free_mb=int(memory) - int(used) if is_known else math.inf,
            gpus=sum(count for _, count in gpus_in(gres)),
            gpus_used=sum(count for _, count in gpus_in(gres_used)),
            gpu_types=tuple(kind for kind, _ in gpus_in(gres) if kind),
            features=tuple(word for word in features.split(",") if word and word != "(null)"),
        )

    def processors(self, rules: Rules) -> int:
        """Return the available processors: in use, or to be had."""
        count = self.total if self.is_there else self.total - self.idle
        return int(min(count, rules.host_cpus_max))

    def idle_gpus(self, rules: Rules) -> int:
        """Return the GPUs that a job could have now, with a processor beside them."""
        return max(0, self.gpus - self.gpus_used) if self.idle_for(rules) else 0

    def unit(self, rules: Rules) -> int:
        """Return the processors that are given as a whole."""
        parts = {Whole.NODE: 1, Whole.SOCKET: self.sockets, Whole.CORE: self.cores}
        return max(1, self.total // (parts.get(rules.whole, 0) or self.total or 1))

    def idle_for(self, rules: Rules) -> int:
        """Return the processors that a job without wishes could have now."""
        if self.lack:
            return 0
        if self.allocated and (rules.whole is Whole.NODE or rules.host_memory_mb == math.inf):
            return 0
        idle = int(min(self.idle, max(0, rules.host_cpus_max - self.allocated)))
        free_mb = max(0.0, self.free_mb)
        if rules.memory_mb:
            idle = min(idle, int(free_mb // rules.memory_mb))
        elif rules.host_memory_mb < math.inf and free_mb < rules.host_memory_mb:
            idle = 0
        return idle - idle % self.unit(rules)

    def why_not(self, rules: Rules) -> str:
        """Return words for why no more of its idle processors are to be had; empty where all
        are."""
        if self.lack or self.idle_for(rules) == self.idle:
            return self.lack
        if self.allocated and rules.whole is Whole.NODE:
            return "on nodes of which others use a part"
        return "beyond a node's memory or limit"


def _lack(state: str, available: str, partition: str) -> str:
    if available != "up":
        return f"of partition {partition}, which is {available}"
    for form, words in (
        (NOT_THERE, "on nodes that are down or drained"),
        (RESERVED, KEPT),
        (NOT_YET, "on nodes that reboot or power down"),
        (ENDING, "on nodes that still end jobs (epilog)"),
    ):
        if form.search(state):
            return words
    return ""


def closed_words(nodes: Iterable[Node], rules: Partitions) -> tuple[str, ...]:
    """Say how many processors that nobody uses are not to be had, and why."""
    counts: dict[str, int] = {}
    for node in nodes:
        of = rules[node.partition]
        if why := node.why_not(of):
            whole = node.idle + (0 if node.is_there else node.missing)
            counts[why] = counts.get(why, 0) + whole - node.idle_for(of)
    return tuple(f"{count} {why}" for why, count in counts.items() if count)


def split_columns(line: str, columns: tuple[tuple[str, int], ...]) -> list[str]:
    """Split a line at its columns: texts may hold blanks, and numbers come without them."""
    fields = []
    at = 0
    for _, width in columns:
        fields.append(line[at : at + width].strip())
        at += width
    return fields
