"""Writes docs/cli.md from the help of the commands: `python -m tests.cli.reference`."""

from __future__ import annotations

from collections.abc import Iterable

from tests.cli.command import koala_here

HEAD = """# The command line

Written by `python -m tests.cli.reference` from the commands' own help; a test compares the two.

Results go to standard output, everything else to standard error, so that
`JOB=$(koala submit job.rsl)` needs no care. Every query has `--json`; the documents are those of
[the Python client](../koala/client/client.py).

| exit status | means |
| --- | --- |
| 0 | done; for `submit --wait`, `wait` and `demo`: every job has Finished |
| 1 | refused (by this grid, as it is now), failed, or unknown |
| 2 | wrong usage, description or configuration: wrong on every grid |
| 3 | the daemon is not reachable |
| 130 | Ctrl-C; a job that was waited for goes on, and how to look at it and cancel it is said |

The daemon is looked for at `--address`, else at `$KOALA_ADDRESS`, else where your credentials file
says, else where a daemon of your own account serves on this machine, else at `127.0.0.1:7740`. Of
several of your own it is the one at port 7740; without one there they are listed, and you choose.
A watch or a wait goes on when the daemon is started again. `koala --debug COMMAND` shows the
traceback of an error. `koala --install-completion` teaches the shell commands and options.

A session, with a grid of one machine in another terminal (`koala up deploy/das.toml`):

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
        help_text = run.stdout.rstrip()
        parts.append(f"## koala {' '.join(words)}\n\n```\n{help_text}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    from tests.cli.test_documents import COMMAND_LINE, command_lines

    COMMAND_LINE.write_text(reference(command_lines()), encoding="utf-8")
