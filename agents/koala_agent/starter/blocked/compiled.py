"""Start of the compiled gate (`gate.c`), on the agent's own machine."""

from __future__ import annotations

import os

from koala_agent.starter.compat import encoded, to_bytes
from koala_agent.starter.light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.program import ClaimProgram, Main


def spawn(
    program: ClaimProgram, main: Main, orders: int, errors: int, *, signals: tuple[str, ...]
) -> int:
    """Start a gate with the default actions for these signals; return its pid. Raises OSError, and
    ValueError for words that no program can be given.
    """
    command = program.command(main)
    top = max(orders, errors)
    words = [
        program.spec.gate,
        str(os.getpid()),
        *(str(top + 1), str(top + 2)),
        program.directory,
        *(program.stream(number, main.process) for number in range(3)),
        *(format(program.stream_mode(number), "o") for number in (1, 2)),
        *map(str, program.limits() if command[0] == program.path else (0, 0, 0)),
        str(program.brand),
        *command,
    ]
    return os.posix_spawn(
        program.spec.gate,
        [to_bytes(word) for word in words],
        encoded(program.environment),
        file_actions=[
            (os.POSIX_SPAWN_DUP2, orders, top + 1),
            (os.POSIX_SPAWN_DUP2, errors, top + 2),
        ],
        setsigdef=[getattr(signal, name) for name in signals],
    )
