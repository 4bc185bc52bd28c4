"""Run a program in a process of the fork server, with streams, folder and umask of this process.

    python -IS launch.py SERVER PROGRAM MODULES WORDS...

For commands in shells, which start a process each: this one imports next to nothing. SERVER is the
path of the server's socket, PROGRAM the source text, MODULES what the server imports first, with
commas between. Signals are passed on, the exit status is that of the program, and the program is
killed when this process is.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from functools import partial

REPORT_BYTES_MAX = 64
SERVER_ENDED = 70
"""Exit status where the server ended, and its processes with it."""
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def launch_words(server: str, program: str, *modules: str) -> tuple[str, ...]:
    """Return the command that runs a program so, to which its words may be added."""
    return (sys.executable, "-IS", os.path.abspath(__file__), server, program, ",".join(modules))  # noqa: PTH100


def say_status(status: int) -> str:
    """Say a status, which is negative for a signal, as subprocess has it."""
    if status >= 0:
        return f"ended with status {status}"
    return f"was ended by {signal.Signals(-status).name}"


def pass_on(pidfd: int, number: int, _frame: object) -> None:
    """Send a signal to the process of this descriptor, unless it has ended."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def main() -> int:
    """Order the process and wait for its end."""
    server, program, modules, *words = sys.argv[1:]
    umask = os.umask(0o077)
    order = {
        "program": program,
        "words": words,
        "environment": dict(os.environ),
        "folder": os.getcwd(),  # noqa: PTH109 - pathlib takes as long to import as all the rest
        "umask": umask,
        "is_session": False,
        "modules": [one for one in modules.split(",") if one],
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until it is known to whom
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as report:
        report.connect(server)
        socket.send_fds(report, [json.dumps(order).encode()], [0, 1, 2])
        # Its number may be that of another process as soon as the server has reaped it.
        _pid, (pidfd,), _flags, _sender = socket.recv_fds(report, REPORT_BYTES_MAX, 1)
        for number in PASSED_ON:
            signal.signal(number, partial(pass_on, pidfd))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        told = report.recv(REPORT_BYTES_MAX)
        if not told:
            print(f"the fork server at {server} ended before its process", file=sys.stderr)
            return SERVER_ENDED
        status = int(told)
    if status < 0:
        if -status in PASSED_ON:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main())
