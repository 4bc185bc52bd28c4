"""Writes docs/cli.md from the help of the commands: `python -m tests.cli.reference`."""

from __future__ import annotations

from collections.abc import Iterable

from tests.cli.command import koala_here

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
an error. `koala --install-completion` makes the shell complete commands, options, and names of
jobs, sites and users.

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
        help_text = run.stdout.rstrip()
        parts.append(f"## koala {' '.join(words)}\n\n```text\n{help_text}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    from tests.cli.test_documents import COMMAND_LINE, command_lines

    COMMAND_LINE.write_text(reference(command_lines()), encoding="utf-8")
