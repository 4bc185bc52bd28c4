"""Writes docs/cli.md from the help of the commands: `python -m tests.cli.reference`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable

import pytest

from koala_agent.main import COMMANDS as AGENT_COMMANDS
from koala_agent.main import main as agent_main
from tests.cli.command import SHOWN, koala_here

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
    parts = [HEAD]
    for words in commands:
        run = koala_here(*words, "--help")
        assert run.returncode == 0, run.stderr
        parts.append(_section(f"koala {' '.join(words)}", run.stdout))
    parts.append(_section("koala-agent", agent_help()))
    parts.extend(_section(f"koala-agent {name}", agent_help(name)) for name in AGENT_COMMANDS)
    return "\n".join(parts)


def _section(name: str, help_text: str) -> str:
    return f"## {name}\n\n```text\n{help_text.rstrip()}\n```\n"


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
