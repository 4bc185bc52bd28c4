"""Nodes and partitions, as `sinfo` and `scontrol` list them: idle processors and GPUs."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

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
    ("Gres", 200),
    ("GresUsed", 200),
    ("Features", 400),
)

NOT_THERE = re.compile(
    r"\b(?:down|drain|drained|draining|fail|failing|error|unknown|future|inval|invalid_reg|blocked"
    r"|maint|maintenance|reserved|not_responding|no_respond)\b|[*$]"
)
"""Words and marks in the state of a node whose idle processors are not available (sinfo(1), NODE
STATE CODES)."""

NOT_YET = re.compile(r"\b(?:reboot\w*|power\w*)\b|[#!%^@~]")
"""Words and marks of a node that is available to jobs, though not soon. (A node planned for a job
counts as any other: waiting jobs have a right to idle processors anyway, and it may be planned for
a claim.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules by which a partition shares its nodes. `memory_mb` is taken by each CPU of a job that
    asks for none, None where memory is not counted; infinite: all of the node."""

    is_exclusive: bool = False
    memory_mb: float | None = None


class Partitions(dict[str, Rules]):
    """Rules by partition; one that appeared between two commands has the defaults."""

    def __missing__(self, name: str) -> Rules:
        return Rules()


def rules_of(partitions: str, config: str) -> Partitions:
    """Parse `scontrol -o show partition` and `scontrol show config`."""
    select = re.search(r"^SelectTypeParameters\s*=\s*(\S+)", config, re.MULTILINE)
    counts_memory = select is not None and "MEMORY" in select[1].upper()
    usual = re.search(r"^DefMemPerCPU\s*=\s*([0-9]{1,15})", config, re.MULTILINE)
    found = Partitions()
    for line in partitions.splitlines():
        words = dict(re.findall(r"(\w+)=(\S*)", line))
        own = words.get("DefMemPerCPU", "")
        memory_mb = math.inf
        if is_count(own) or usual is not None:
            memory_mb = float(own if is_count(own) else usual[1])  # type: ignore[index]
        found[words.get("PartitionName", "")] = Rules(
            is_exclusive=words.get("OverSubscribe", "").upper() == "EXCLUSIVE",
            memory_mb=memory_mb if counts_memory and memory_mb > 0 else None,
        )
    return found


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
    """Row of `sinfo -N`: a node in a partition."""

    name: str
    partition: str
    is_default: bool
    is_there: bool
    is_startable: bool
    is_partly_used: bool
    idle: int
    total: int
    memory_mb: int
    free_mb: float
    gpus: int
    gpus_used: int
    gpu_types: tuple[str, ...]
    features: tuple[str, ...]

    @classmethod
    def read(cls, line: str) -> Node:
        """Parse a row. Raises LocalManagerError."""
        name, partition, available, cpus, state, memory, used, gres, gres_used, features = (
            split_columns(line, NODE_COLUMNS)
        )
        counts = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})/([0-9]{1,7})/([0-9]{1,7})", cpus)
        if counts is None:
            message = f"sinfo: {line.strip()[:200]!r} has no count of processors"
            raise LocalManagerError(message, transient=True)
        allocated, idle, other, total = (int(count) for count in counts.groups())
        is_there = NOT_THERE.search(state.lower()) is None
        is_known = is_count(memory) and is_count(used)
        return cls(
            name=name,
            partition=partition.removesuffix("*"),
            is_default=partition.endswith("*"),
            is_there=is_there,
            is_startable=is_there and available == "up" and NOT_YET.search(state.lower()) is None,
            is_partly_used=allocated > 0,
            idle=idle,
            total=total - other,
            memory_mb=int(memory) if is_known else 0,
            free_mb=int(memory) - int(used) if is_known else math.inf,
            gpus=sum(count for _, count in gpus_in(gres)),
            gpus_used=sum(count for _, count in gpus_in(gres_used)),
            gpu_types=tuple(kind for kind, _ in gpus_in(gres) if kind),
            features=tuple(word for word in features.split(",") if word and word != "(null)"),
        )

    def processors(self) -> int:
        """Return the available processors: in use, or to be had."""
        return self.total if self.is_there else self.total - self.idle

    def idle_gpus(self, rules: Rules) -> int:
        """Return the GPUs that a job could have now, with a processor beside them."""
        return max(0, self.gpus - self.gpus_used) if self.idle_for(rules) else 0

    def idle_for(self, rules: Rules) -> int:
        """Return the processors that a job could have now."""
        if not self.is_startable or (rules.is_exclusive and self.is_partly_used):
            return 0
        if rules.memory_mb is None:
            return self.idle
        if rules.memory_mb == math.inf:
            return 0 if self.is_partly_used else self.idle
        return min(self.idle, int(max(0.0, self.free_mb) // rules.memory_mb))


def split_columns(line: str, columns: tuple[tuple[str, int], ...]) -> list[str]:
    """Split a line at its columns: texts may hold blanks, and numbers come without them."""
    fields = []
    at = 0
    for _, width in columns:
        fields.append(line[at : at + width].strip())
        at += width
    return fields
