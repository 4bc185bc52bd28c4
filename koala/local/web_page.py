"""The web page of a grid on this machine: started beside it, and its link shown."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from koala.common.runtime.software import WEB, missing_text
from koala.common.wire.listen_ports import check_free
from koala.errors import ConfigError
from koala.local.grid_file import ANY_PORT, GridFolder
from koala.local.processes import Processes

LISTEN = "127.0.0.1:7780"
START_S = 60.0
POLL_S = 0.1


async def start_page(
    folder: GridFolder, processes: Processes, address: str, say: Callable[[str], None]
) -> None:
    """Start the web page, at a free port if its usual one is taken, and say its sign-in link.

    A grid needs no page: what keeps it from starting is said, and no error.
    """
    if text := missing_text("web", WEB):
        say(f"no web page: it {text}")
        return
    folder.link.unlink(missing_ok=True)
    processes.start_web(address, _listen())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_S):
            while not folder.link.exists():
                if not processes.has_web():
                    break
                await asyncio.sleep(POLL_S)
    if folder.link.exists():
        link = folder.link.read_text(encoding="utf-8").strip()
        say(f"web page: {link}")
        say(f"the link is good once; {folder.link} has the next one")
    else:
        say(f"no web page: its log is in {folder.log('daemon').parent}")


def _listen() -> str:
    try:
        check_free("koala web --listen", LISTEN)
    except ConfigError:
        return ANY_PORT
    return LISTEN
