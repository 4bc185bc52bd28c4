"""Read the allocation of a batch job: its machines, and the processes that each has room for."""

from __future__ import annotations

from koala_agent.starter.compat import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def allocation(
    manager: str, environment: Mapping[str, str], *, cpus_per_task: int = 1
) -> tuple[tuple[str, int], ...]:
    """Return the machines of this batch job, ours first, with the processes that each has room for:
    one a processor, or for `cpus_per_task` of them.

    Empty where the manager does not report them. An emulated manager may itself run inside a batch
    job: it reports none.
    """
    if manager == "slurm":
        try:
            names = expand_names(environment.get("SLURM_JOB_NODELIST", ""))
            counts = expand_counts(environment.get("SLURM_TASKS_PER_NODE", ""))
        except ValueError as error:  # a newer version's format: run everything here
            log(f"the machines of this batch job cannot be read: {error}")
            return ()
        return tuple(zip(names, counts)) if len(names) == len(counts) else ()
    if manager == "gridengine":
        try:
            with open(environment.get("PE_HOSTFILE", ""), errors="replace") as file:
                fields = [row.split() for row in file]
        except OSError:
            return ()
        return tuple(
            (row[0], int(row[1]) // cpus_per_task)
            for row in fields
            if len(row) > 1 and row[1].isdigit()
        )
    return ()


def expand_names(text: str) -> list[str]:
    """Expand Slurm's short form of names: `a[1-3,07],b` are a1, a2, a3, a07 and b."""
    words = [""]
    depth = 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    names: list[str] = []
    for word in words:
        start, bracket, rest = word.partition("[")
        ranges, _bracket, end = rest.partition("]")
        if not bracket:
            names += [word] if word else []
            continue
        for part in ranges.split(","):
            low, _dash, high = part.partition("-")
            numbers = range(int(low), int(high or low) + 1)
            for number in numbers:
                names += expand_names(f"{start}{number:0{len(low)}d}{end}")
    return names


def expand_counts(text: str) -> list[int]:
    """Expand Slurm's short form of numbers: `4(x2),3` are 4, 4 and 3."""
    counts: list[int] = []
    for word in text.split(",") if text else []:
        count, _bracket, times = word.partition("(x")
        counts += [int(count)] * int(times.rstrip(")") or 1)
    return counts
