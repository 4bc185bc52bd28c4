"""One process at the barrier: it is prepared, waits for orders on a pipe, and becomes the program.

It is a fork of the starter. An order is its length in four bytes, the least significant first, and
then as many bytes: variables to add to the environment, NAME=VALUE and a zero byte each. An order
without any bytes is the release. At the end of the pipe without a release the starter is gone, and
the process exits.
"""

from __future__ import annotations

import os

from koala_agent.starter.compat import to_bytes
from koala_agent.starter.light import signal
from koala_agent.starter.process_tree import die_with_parent, set_tag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from koala_agent.starter.program import ClaimProgram, Main

RELEASE = bytes(4)
SITE_SIGNALS = ("SIGTERM", "SIGINT", "SIGXCPU", "SIGUSR2")
"""Signals with which a site ends a batch job; the last is a notice of a KILL."""
PAUSE_SIGNALS = ("SIGUSR1", "SIGCONT")
"""A notice of a suspension, whose default action would kill the starter, and the end of one."""
_OWN_SIGNALS = (*SITE_SIGNALS, *PAUSE_SIGNALS, "SIGCHLD", "SIGHUP", "SIGPIPE")


def to_order(environment: dict[str, str]) -> bytes:
    """Return the order to add these variables, nothing for none: that would be the release. Raises
    ValueError for one with a zero byte.
    """
    words = [to_bytes(f"{name}={value}") for name, value in environment.items()]
    if any(b"\0" in word for word in words):
        raise ValueError("an environment variable with a zero byte")
    content = b"".join(word + b"\0" for word in words)
    return len(content).to_bytes(4, "little") + content if content else b""


def start(program: ClaimProgram, main: Main, orders: int, errors: int) -> int:
    """Start a process that reads orders and writes its errors at these descriptors; return its pid.
    Raises OSError when the machine has no room for a process.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        die_with_parent(parent)
        _become(program, main, orders, errors)
    return pid


def _become(program: ClaimProgram, main: Main, orders: int, errors: int) -> NoReturn:
    """Run the forked process: prepare, wait for the release, exec the program. Never returns."""
    what = "fork"
    try:
        signal.set_wakeup_fd(-1)
        for name in _OWN_SIGNALS:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        set_tag(program.tag)
        os.setsid()
        orders, errors = _keep_only(orders, errors)
        what = program.directory
        os.chdir(what)
        for number in range(3):
            what = program.stream(number, main.process)
            opened = program.open_stream(number, main.process)
            os.dup2(opened, number)
            os.close(opened)
        command = program.command(main)
        what = command[0]
        environment = {to_bytes(k): to_bytes(v) for k, v in program.environment.items()}
        if _wait_for_release(orders, environment):
            if what == program.path:
                program.limit()
            os.execve(to_bytes(what), [to_bytes(word) for word in command], environment)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        text = f"{what}: {why}".replace("\n", " ")
        os.write(errors, text.encode("utf-8", "replace")[:1000] + b"\n")
    finally:
        os._exit(127)


def _keep_only(orders: int, errors: int) -> tuple[int, int]:
    """Close all inherited descriptors but these: siblings' pipes would keep siblings waiting."""
    top = max(orders, errors, 64)
    os.dup2(orders, top + 1, inheritable=False)
    os.dup2(errors, top + 2, inheritable=False)
    os.closerange(3, top + 1)
    os.closerange(top + 3, max(4096, top + 3))
    return top + 1, top + 2


def _wait_for_release(orders: int, environment: dict[bytes, bytes]) -> bool:
    """Read orders until the release; False when the starter is gone."""
    with open(orders, "rb", closefd=False) as file:
        while True:
            head = file.read(len(RELEASE))
            if len(head) < len(RELEASE):
                return False
            content = file.read(int.from_bytes(head, "little"))
            if not content:
                return head == RELEASE
            for word in content.split(b"\0")[:-1]:
                name, _equals, value = word.partition(b"=")
                environment[name] = value
