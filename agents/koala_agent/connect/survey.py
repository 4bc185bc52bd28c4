"""Survey of a host over ssh: one script in its login shell, and the reader of what it says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from koala_agent.lrm.batch_system import BatchSystem, known_systems
from koala_agent.transport.interface import Answer, Command

MARK = "koala-survey"
"""Begins each line, because what is asked there may write to the output, too."""
PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11", "python3")
COMMANDS = ("uv", "timeout")
"""Commands that are looked for besides those of batch systems."""
AGENT_MIN, STARTER_MIN = (3, 11), (3, 6)

_SCRIPT = """\
say() {{ printf '{mark} %s\\n' "$*"; }}
say name "$(hostname -f 2>/dev/null || hostname)"
say home "$HOME"
say path "$PATH"
say processors "$(getconf _NPROCESSORS_ONLN)"
for p in {commands}; do w=$(command -v $p) && say command $p "$w"; done
for p in {pythons}; do
  w=$(command -v $p) && say python "$("$w" -c 'import sys; print(*sys.version_info[:2])')" "$w"
done
for v in {variables}; do eval "x=\\${{$v-}}"; [ -z "$x" ] || say variable $v "$x"; done
{questions}
say end
"""


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
    answers: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    """Answers to the questions of each kind of batch system, by key."""

    @property
    def system(self) -> BatchSystem | None:
        """The first batch system that is installed; None when there is none."""
        return next(
            (known for known in known_systems() if known.is_installed(self.commands.get)), None
        )

    @property
    def submit_command(self) -> str:
        """The path of that system's command of submission."""
        return self.commands.get(self.system.programs[0], "") if self.system else ""

    def python(self, least: tuple[int, int]) -> str:
        """Return the best interpreter from a version on; empty when there is none."""
        return next((path for version, path in self.pythons if version >= least), "")


def survey_command() -> Command:
    """Return the command that asks."""
    systems = known_systems()
    programs = (name for one in systems for name in (*one.programs, *one.found_by))
    script = _SCRIPT.format(
        mark=MARK,
        commands=" ".join(dict.fromkeys((*programs, *COMMANDS))),
        pythons=" ".join(PYTHONS),
        variables=" ".join(
            dict.fromkeys(name for one in systems for name in (*one.variables, *one.profile))
        ),
        questions="\n".join(_question(one) for one in systems if one.survey),
    )
    # Batch systems are often in the PATH of login shells alone.
    return Command(argv=("/bin/sh", "-s"), stdin=script, hands_on=True)


def _question(system: BatchSystem) -> str:
    """Return the lines of a batch system, asked where it is installed; in a shell of their own, so
    that faulty ones end no survey, and that no other batch system's answers are among its own."""
    signs = system.found_by or system.programs
    is_there = " && ".join(f"command -v {name} >/dev/null" for name in signs)
    say = f"say() {{ printf '{MARK} answer {system.kind} %s\\n' \"$*\"; }}"
    lines = shlex.quote(f"{say}\n{system.survey}")
    return f"if {is_there}; then /bin/sh -c {lines} </dev/null; fi"


def read_survey(answer: Answer) -> Survey | None:
    """Read the answer; None when the script did not come to its end."""
    rows = list(_rows(answer.out))
    values = {key: rest for key, rest in rows if key in ("name", "home", "path", "processors")}
    if not rows or rows[-1][0] != "end" or len(values) < 4:
        return None
    pythons = []
    for key, rest in rows:
        version = re.fullmatch(r"(\d{1,3}) (\d{1,3}) (/.*)", rest)
        if key == "python" and version:
            pythons.append(((int(version[1]), int(version[2])), version[3]))
    return Survey(
        name=values["name"],
        home=values["home"],
        path=values["path"],
        processors=int(values["processors"]) if values["processors"].isdecimal() else 1,
        commands=dict(_pairs(rows, "command")),
        pythons=tuple(sorted(set(pythons), key=lambda one: one[0], reverse=True)),
        variables=dict(_pairs(rows, "variable")),
        answers=_answers(rows),
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


def _answers(rows: list[tuple[str, str]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Collect the answers to the questions of each batch system, by key."""
    answers: dict[str, dict[str, tuple[str, ...]]] = {}
    for kind, answer in _pairs(rows, "answer"):
        key, _, text = answer.partition(" ")
        of_kind = answers.setdefault(kind, {})
        of_kind[key] = (*of_kind.get(key, ()), text)
    return answers
