"""Survey of a host over ssh: one script in its login shell, and the reader of what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from koala_agent.transport.interface import Answer, Command

MARK = "koala-survey"
"""Begins each line, because profiles write to the output, too."""
PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11", "python3")
COMMANDS = (
    "sbatch",
    "sinfo",
    "qsub",
    "qconf",
    "condor_submit",
    "condor_q",
    "oarsub",
    "pbsnodes",
    "uv",
    "timeout",
)
VARIABLES = (
    *("SLURM_CONF", "SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "SGE_ARCH"),
    *("CONDOR_CONFIG", "PBS_CONF_FILE", "PBS_SERVER"),
)
SUBMITTERS = {
    "slurm": "sbatch",
    "gridengine": "qsub",
    "htcondor": "condor_submit",
    "oar": "oarsub",
    "pbs": "qsub",
}
"""Command of submission of each batch system."""
AGENT_MIN, STARTER_MIN = (3, 11), (3, 6)

SCRIPT = f"""\
say() {{ printf '{MARK} %s\\n' "$*"; }}
say name "$(hostname -f 2>/dev/null || hostname)"
say home "$HOME"
say path "$PATH"
say processors "$(getconf _NPROCESSORS_ONLN)"
for p in {" ".join(COMMANDS)}; do w=$(command -v $p) && say command $p "$w"; done
for p in {" ".join(PYTHONS)}; do
  w=$(command -v $p) && say python "$("$w" -c 'import sys; print(*sys.version_info[:2])')" "$w"
done
for v in {" ".join(VARIABLES)}; do eval "x=\\${{$v-}}"; [ -z "$x" ] || say variable $v "$x"; done
if command -v qconf >/dev/null; then
  for e in $(qconf -spl 2>/dev/null); do say environment $e; done
fi
say end
"""
LOGIN_SHELL = """\
case "${SHELL:-}" in
  */bash|*/zsh|*/ksh|*/dash|*/sh) exec "$SHELL" -l -c 'exec /bin/sh -s' ;;
  *) exec /bin/sh -l -s ;;
esac"""
"""Batch systems are often in the PATH of login shells alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Findings at a host. `pythons` are (version, path), the best first."""

    name: str
    home: str
    path: str
    processors: int
    commands: dict[str, str] = field(default_factory=dict)
    pythons: tuple[tuple[tuple[int, int], str], ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    environments: tuple[str, ...] = ()

    @property
    def batch_system(self) -> str:
        """The kind of `[lrm]`; empty when there is none."""
        if "sbatch" in self.commands:
            return "slurm"
        if "qsub" in self.commands and "qconf" in self.commands:
            return "gridengine"
        if "qsub" in self.commands and "pbsnodes" in self.commands:
            return "pbs"
        if "oarsub" in self.commands:
            return "oar"
        return "htcondor" if "condor_submit" in self.commands else ""

    @property
    def submit_command(self) -> str:
        """The path of that system's command of submission."""
        return self.commands.get(SUBMITTERS.get(self.batch_system, ""), "")

    def python(self, least: tuple[int, int]) -> str:
        """Return the best interpreter from a version on; empty when there is none."""
        return next((path for version, path in self.pythons if version >= least), "")


def survey_command() -> Command:
    """Return the command that asks."""
    return Command(argv=("/bin/sh", "-c", LOGIN_SHELL), stdin=SCRIPT)


def read_survey(answer: Answer) -> Survey | None:
    """Read the answer; None when the script did not come to its end."""
    rows = list(_rows(answer.out))
    found = {key: rest for key, rest in rows if key in ("name", "home", "path", "processors")}
    if not rows or rows[-1][0] != "end" or len(found) < 4:
        return None
    pythons = []
    for key, rest in rows:
        version = re.fullmatch(r"(\d{1,3}) (\d{1,3}) (/.*)", rest)
        if key == "python" and version:
            pythons.append(((int(version[1]), int(version[2])), version[3]))
    return Survey(
        name=found["name"],
        home=found["home"],
        path=found["path"],
        processors=int(found["processors"]) if found["processors"].isdecimal() else 1,
        commands=dict(_pairs(rows, "command")),
        pythons=tuple(sorted(set(pythons), key=lambda one: one[0], reverse=True)),
        variables=dict(_pairs(rows, "variable")),
        environments=tuple(rest for key, rest in rows if key == "environment"),
    )


def _rows(out: str) -> Iterator[tuple[str, str]]:
    for line in out.splitlines():
        mark, _, rest = line.partition(" ")
        if mark == MARK:
            key, _, value = rest.partition(" ")
            yield key, value


def _pairs(rows: list[tuple[str, str]], wanted: str) -> Iterator[tuple[str, str]]:
    for key, rest in rows:
        if key == wanted:
            name, _, value = rest.partition(" ")
            yield name, value
