"""Steps of a heterogeneous job: what each of its parts runs of the script.

The parts are batch jobs of their own here, and no `srun` reaches from one to another. So each part
gets the text with the `srun` commands of its own group alone.
"""

from __future__ import annotations

import re

from koala.errors import SpecError
from koala.job_descriptions.tree import Source

_STEP = re.compile(r"^([ \t]*)srun(?=[ \t])((?:[^\n\\]|\\.)*)", re.MULTILINE | re.DOTALL)
"""A command of a shell, with the lines on which it goes on."""
_WORD = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])+""", re.DOTALL)
_END = re.compile(r"((?:\d?(?:>>?|<|>&|&>)\s*[^\s;|&]+|2>&1)\s*)*&?\s*(#.*)?")
"""Redirections, and the sign of the background."""
_GROUP = re.compile(r"--(?:het|pack)-group[= ](\S+)")


def texts_of_parts(text: str, count: int) -> tuple[list[str], list[str]]:
    """Return the text of each part, empty for a part without a step, and warnings. Raises
    SpecError."""
    source = Source(text=text)
    steps = [(step, _commands(step, source, count)) for step in _STEP.finditer(text)]
    for option in re.finditer(r"^[^#\n]*--(?:het|pack)-group", text, re.MULTILINE):
        if not any(step.start() <= option.start() < step.end() for step, _ in steps):
            raise _refusal(
                "found in the middle of a line (expected an `srun` that begins one)",
                source,
                option.start(),
            )
    texts, warnings = [text] * count, []
    for part in reversed(range(count)):
        own = [step for step, commands in steps if commands[part]]
        for step, commands in reversed(steps):
            instead = step[1] + (commands[part] or "true")
            texts[part] = texts[part][: step.start()] + instead + texts[part][step.end() :]
        if part and not own:
            texts[part] = ""
            warnings.append(f"part {part} runs nothing, and ends at once: no srun names its group")
        elif part:
            at = source.position(own[0].start(2))
            assert at is not None
            warnings.append(
                f"line {at.line}, column {at.column}: part {part} is a batch job of its own, with"
                " MPI of its own: it runs this script with its own `srun` commands alone"
            )
    return texts, warnings[::-1]


def _commands(step: re.Match[str], source: Source, count: int) -> list[str]:
    """Return the command of each part, empty for none. Raises SpecError."""
    words = _WORD.findall(step[2].replace("\\\n", " "))
    end = next((at for at, word in enumerate(words) if re.search(r"^\d?[<>]|^[#&|]|;", word)), None)
    rest = "" if end is None else " ".join(words[end:])
    commands = [""] * count
    programs = "\0".join(words[:end]).split("\0:\0")
    for place, program in enumerate(program.replace("\0", " ") for program in programs):
        group_option = _GROUP.search(program)
        for group in (group_option[1] if group_option else str(place)).split(","):
            if group not in map(str, range(count)):
                raise _refusal(f"found {group!r}, expected 0 to {count - 1}", source, step.start(2))
            if commands[int(group)] or _END.fullmatch(rest) is None:
                message = "found several programs for a part (expected one `srun` on a line)"
                raise _refusal(message, source, step.start(2))
            commands[int(group)] = f"srun {_GROUP.sub('', program).strip()} {rest}".rstrip()
    return commands


def _refusal(what: str, source: Source, offset: int) -> SpecError:
    return source.error(
        f"--het-group: {what}; or give each part a script of its own, and submit them together:"
        " koala submit --component SITE:FIRST --component SITE:SECOND",
        offset,
    )
