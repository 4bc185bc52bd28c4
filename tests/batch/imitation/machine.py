"""Run the script of one job: `machine.py SCRIPT END WALLTIME_S`.

TERM and KILL go to the session of the job, by order (SIGUSR1) or at its wall time. The exit status
that OpenPBS would report is then in the file END.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

KILL_DELAY_S = 1.0
OVER_WALLTIME = -29
SIGNAL_BASE = 256


SHELL = """
import os, signal
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
os.execv("/bin/sh", ["sh"])
"""


class EndError(Exception):
    """Somebody orders the end of the job."""


def main(script: str, end: str, walltime_s: str) -> None:
    """Run the script to its end, and write the exit status."""
    signal.signal(signal.SIGUSR1, _order_end)
    with Path(script).open() as text:
        job = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", SHELL],
            stdin=text,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    is_over = False
    try:
        _unblock()
        job.wait(float(walltime_s) or None)
    except subprocess.TimeoutExpired:
        is_over = True
    except EndError:
        pass
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    status = _end(job)
    if is_over:
        status = OVER_WALLTIME
    new = Path(f"{end}.new")
    new.write_text(str(status))
    new.rename(end)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])


def _order_end(_number: int, _frame: object) -> None:
    raise EndError


def _end(job: subprocess.Popen[bytes]) -> int:
    """End what is left of the session, and return the exit status."""
    with suppress(ProcessLookupError):
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGCONT)
            os.killpg(job.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                job.wait(KILL_DELAY_S)
        os.killpg(job.pid, signal.SIGKILL)
    code = job.wait()
    return code if code >= 0 else SIGNAL_BASE - code


main(*sys.argv[1:])
