"""Rules by which a starter deals with the batch system that runs it.

They are data, so that a batch system of another package needs no module on compute nodes.
"""

from __future__ import annotations

from koala_agent.starter.compat import dataclass, log, read_fields
from koala_agent.starter.messages import to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRules:
    """The hosts of a batch job, the way to start a helper on each, and its peculiarities.

    - Hosts: `hosts_variable` holds names as `a[1-3],b`, and `counts_variable` the processes that
      each has room for, as `4(x2),3`; or `hosts_file_variable` names a file with a host and its
      number of slots at the head of each line. None of them: everything runs on the first host.
    - `helpers` are the words that start helpers on other hosts. With `{host}` in them a helper is
      started for each host, and the words after them are read by a shell once more, as `ssh` and
      `qrsh` do. With `{hosts}` and `{count}` they start the helpers of all hosts at once.
    - `process_variables` are set for each process that a helper starts, as the batch system would:
      a name, and `process`, `local`, `host` (their numbers) or `processes` (of the component).
    - `host_variables` are beginnings of the names of variables that it sets on each host; a helper
      keeps its own ones, and gets all others from the first host.
    - `passes_suspension` is true where a suspension (SIGUSR1, SIGCONT) reaches the starter alone.
    - `needs_keeper` is true where nothing but the starter ends the processes that a program leaves.
    """

    hosts_variable: str = ""
    counts_variable: str = ""
    hosts_file_variable: str = ""
    helpers: tuple[str, ...] = ()
    process_variables: tuple[tuple[str, str], ...] = ()
    host_variables: tuple[str, ...] = ()
    passes_suspension: bool = False
    needs_keeper: bool = False

    def document(self) -> dict[str, object]:
        """Return the rules as a JSON object, which `rules_of` reads."""
        return to_json(self)

    @property
    def starts_helpers_at_once(self) -> bool:
        """True if one command starts the helpers of all hosts."""
        return not any("{host}" in word for word in self.helpers)

    def helper_command(self, hosts: Sequence[str]) -> list[str]:
        """Return the words that start helpers on these hosts."""
        values = {"{host}": hosts[0], "{hosts}": ",".join(hosts), "{count}": str(len(hosts))}
        command = []
        for word in self.helpers:
            for name, value in values.items():
                word = word.replace(name, value)  # noqa: PLW2901 - the word with its values
            command.append(word)
        return command

    @property
    def rank_variables(self) -> tuple[str, ...]:
        """Names of the variables with the number of a process among all of a component."""
        return tuple(name for name, which in self.process_variables if which == "process")

    def variables(self, *, process: int, local: int, host: int, processes: int) -> dict[str, str]:
        """Return the batch system's variables of a process."""
        numbers = {"process": process, "local": local, "host": host, "processes": processes}
        return {name: str(numbers[which]) for name, which in self.process_variables}


def rules_of(spec: dict[str, object]) -> BatchRules:
    """Read the rules of a specification. Raises ValueError."""
    given = spec.get("batch")
    return read_fields(BatchRules, given if isinstance(given, dict) else {})


def allocation(
    rules: BatchRules, environment: Mapping[str, str], *, cpus_per_task: int = 1
) -> tuple[tuple[str, int], ...]:
    """Return the nodes of this batch job, ours first, with the processes that each has room for:
    one a slot, or for `cpus_per_task` of them. Empty where the batch system does not report them.
    """
    if rules.hosts_variable:
        try:
            names = expand_names(environment.get(rules.hosts_variable, ""))
            counts = expand_counts(environment.get(rules.counts_variable, ""))
        except ValueError as error:  # a newer version's format: run everything here
            log(f"the nodes of this batch job cannot be read: {error}")
            return ()
        return tuple(zip(names, counts)) if len(names) == len(counts) else ()
    if rules.hosts_file_variable:
        try:
            with open(environment.get(rules.hosts_file_variable, ""), errors="replace") as file:
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
    """Expand the short form of names: `a[1-3,07],b` are a1, a2, a3, a07 and b."""
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
    """Expand the short form of numbers: `4(x2),3` are 4, 4 and 3."""
    counts: list[int] = []
    for word in text.split(",") if text else []:
        count, _bracket, times = word.partition("(x")
        counts += [int(count)] * int(times.rstrip(")") or 1)
    return counts
