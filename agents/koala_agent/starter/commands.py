"""Commands of the starter: the starter of a claim, its helpers, launchers and parents.

Each loads its own modules. A helper is sent no others (`node.remote_nodes`).
"""

from __future__ import annotations

import os

from koala_agent.starter.procfs import begin_of
from koala_agent.starter.program import STATE_FOLDER


def main(arguments: list[str]) -> int:
    """Run a command, by the arguments.

    - `starter.py SPEC`: the starter of one claim; the exit status is always 0, the end says the
      rest.
    - `starter.py machine`: its helper on another node.
    - `starter.py resident ...`: the parent of the starters of an agent on this machine.
    - `starter.py VERB STATE ...`: a program's launcher.
    """
    if arguments[1] == "machine":
        from koala_agent.starter.node import driver as node  # noqa: PLC0415 - see above

        return node.from_stdin()
    if len(arguments) > 2 and arguments[1] != "resident":
        from koala_agent.starter import mpi_launchers as runners  # noqa: PLC0415 - see above

        return runners.main(arguments)
    from koala_agent.starter.driver import run  # noqa: PLC0415 - see above

    if arguments[1] == "resident":
        from koala_agent.starter.resident import parent  # noqa: PLC0415 - see above

        return parent.serve(lambda path: run(path).served())
    run(arguments[1], begin_of(os.getpid()))  # the batch script became this process
    os._exit(0)  # the interpreter would take 5 ms to clean up


def unpacked(given: dict[str, object], folder: str) -> int:
    """Run a starter or a helper that a batch script carried into this folder."""
    from koala_agent.starter.files import temporary_folder  # noqa: PLC0415 - see above

    os.mkdir(os.path.join(folder, STATE_FOLDER), 0o700)
    temporary_folder.hold(folder)
    if "spec" in given:
        from koala_agent.starter.driver import run_carried  # noqa: PLC0415 - see above

        run_carried(given, folder)
    from koala_agent.starter.node import driver as node  # noqa: PLC0415 - see above

    return node.main(given, folder)
