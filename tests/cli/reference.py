"""Writes docs/cli.md from the help of the commands: `python -m tests.cli.reference`."""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable

import pytest

from koala_agent.main import COMMANDS as AGENT_COMMANDS
from koala_agent.main import main as agent_main
from tests.cli.command import SHOWN, koala_here

SHARED_MIN = 2
"""Commands that have an option with the same text, from which on it is described once for all."""
OPTION = re.compile(r"^  (?:-|[A-Z][A-Za-z.]*  ).*\n(?: {8,}\S.*\n)*", re.MULTILINE)
"""An option or argument in a help text, with its lines."""
COMMANDS = re.compile(r"^(?:Commands|other commands[^\n]*):\n(?:  .*\n)+\n?", re.MULTILINE)
"""The list of a group's commands."""
HELP = "-h, --help"

HEAD = """# The command line

Written by `python -m tests.cli.reference` from the commands' own help; a test compares the two.

Results go to standard output, everything else to standard error, so that
`JOB=$(koala submit job.rsl)` works as it stands. Every query has `--json`;
[the documents](api.md#documents) are those of the Python client.

| exit status | means |
| --- | --- |
| 0 | done; for `submit --wait`, `wait` and `demo`: every job has Finished |
| 1 | rejected by this grid, failed, or unknown |
| 2 | wrong usage, description or configuration; wrong on every grid |
| 3 | the daemon is not reachable |
| 130 | Ctrl-C; a job continues, and a message says how to show and cancel it |

The address of the daemon comes from the first of these: `--address`, `$KOALA_ADDRESS`, your
credentials file, a daemon of your own account on this machine, `127.0.0.1:7740`. If you run several
daemons, the one at port 7740 is used; if none is there, the command lists them and you choose. A
watch or a wait continues when the daemon restarts. `koala --debug COMMAND` shows the traceback of
an error. The shell completes commands, options, and names of jobs, sites and users after `eval
"$(_KOALA_COMPLETE=bash_source koala)"` (`zsh_source`, `fish_source`), best in its file of settings.

Other spellings still work: `koala sites` is `koala site`; `koala drain` and `koala resume` are
commands of `koala site`; `koala metrics`, `audit`, `authority`, `backup` and `restore` are commands
of `koala admin`.

What several commands have is described once, below; a command then has its name only. All have
`--help`. In brackets is the default, then the bounds where they say more than that a number is
positive.

A session, with a grid of one machine in another terminal (`koala up`):

<!-- grid -->
```sh
JOB=$(koala submit examples/hello.rsl)
koala wait $JOB
koala timeline $JOB
koala logs $JOB -c first
koala watch --after 0 --job $JOB
```
"""


def reference(commands: Iterable[tuple[str, ...]]) -> str:
    """The whole document."""
    sections: dict[str, str] = {}
    for words in commands:
        run = koala_here(*words, "--help")
        assert run.returncode == 0, run.stderr
        sections[f"koala {' '.join(words)}"] = run.stdout
    sections["koala-agent"] = agent_help()
    sections |= {f"koala-agent {name}": agent_help(name) for name in AGENT_COMMANDS}
    counts = Counter(_key(one[0]) for text in sections.values() for one in OPTION.finditer(text))
    texts = Counter(key.split()[0] for key in counts)  # a word for several things is never shared
    shared = {
        key
        for key, count in counts.items()
        if count >= SHARED_MIN and (key[0] == "-" or texts[key.split()[0]] == 1)
    }
    parts = [HEAD, _of_many(sections.values(), shared)]
    parts.extend(_section(name, _without(text, shared, name)) for name, text in sections.items())
    return "\n".join(parts)


def _key(entry: str) -> str:
    """An option with its text, however its lines are broken."""
    return " ".join(entry.split()).lower().removesuffix(".")


def _name(entry: str) -> str:
    """The long name of an option; empty for an argument."""
    return next((word for word in entry.replace(",", " ").split() if word.startswith("--")), "")


def _of_many(texts: Iterable[str], shared: Collection[str]) -> str:
    """The section of the options that several commands have."""
    found = [one[0] for text in texts for one in OPTION.finditer(text)]
    entries = {_key(one): one for one in reversed(found)}
    lines = []
    for key in sorted(shared, key=lambda key: (_name(entries[key]) or key, key)):
        head, text = re.split(r"\s{2,}", entries[key].strip(), maxsplit=1)
        if head == HELP:
            continue
        lines += textwrap.wrap(
            f"{head:<19} {' '.join(text.split())}",
            98,
            subsequent_indent=" " * 20,
            break_on_hyphens=False,
        )
    return _section("Shared options", "\n".join(lines))


def _without(text: str, shared: Collection[str], name: str) -> str:
    """The help of a command, its shared options by name alone."""
    names = [_name(one[0]) for one in OPTION.finditer(text) if _key(one[0]) in shared]
    words = " ".join(f"[{one}]" for one in names if one and one not in HELP)
    text = OPTION.sub(lambda one: "" if _key(one[0]) in shared else one[0], text)
    text = re.sub(
        r"^([Pp]ositional arguments|[Oo]ptions):\n(?=\n|\Z)\n?", "", text, flags=re.MULTILINE
    )
    text = COMMANDS.sub("", text)  # each has a section
    text = text.replace(" [OPTIONS]", f" {words}" if words else "", 1).removeprefix("Usage: ")
    text = text.removeprefix("usage: ").replace(" [-h]", "", 1)
    return text.removeprefix(f"{name}\n\n")


def _section(name: str, help_text: str) -> str:
    text = re.sub(r"\[default:\s+", "[", help_text.strip("\n"))
    text = re.sub(r";\s+(?:0 or more|1 or more|more than 0)(?=[;\]])", "", text)
    return f"## {name}\n\n```text\n{text}\n```\n"


def agent_help(*words: str, **changes: str) -> str:
    """Help of a command of koala-agent; `changes` are variables of its environment."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        for name, value in {**SHOWN, **changes}.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit):
            agent_main([*words, "--help"])
    return out.getvalue()


if __name__ == "__main__":
    from tests.cli.test_documents import COMMAND_LINE, command_lines

    COMMAND_LINE.write_text(reference(command_lines()), encoding="utf-8")
