"""A program for tests: an agent that only has an emulated local manager, to be killed.

`python agent_program.py STATE_DIRECTORY PROCESSORS`; placeholders come as JSON lines on standard
input; each thing told is a line on standard output, the name of its class and its claim.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from koala_agent.lrm.emulated.emulated_manager import EmulatedLocalManager
from koala_agent.lrm.emulated.emulated_settings import EmulatedSettings
from koala_agent.lrm.local_manager import Idle, Listed, Placeholder
from tests.lrm.harness import serving


def tell(value: Listed | Idle) -> None:
    if not isinstance(value, Idle):
        print(type(value).__name__, value.claim, flush=True)


async def main() -> None:
    settings = EmulatedSettings(processors=int(sys.argv[2]), state_directory=Path(sys.argv[1]))
    manager = EmulatedLocalManager(
        settings, on_report=tell, clock=lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    )
    async with serving(manager):
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            await manager.submit(
                Placeholder(
                    claim=asked["claim"],
                    processors=asked["processors"],
                    time_limit_s=asked["time_limit_s"],
                    argv=tuple(asked["argv"]),
                    directory=Path(asked["directory"]),
                    is_gated=asked["is_gated"],
                )
            )
            print("submitted", asked["claim"], flush=True)


if __name__ == "__main__":
    asyncio.run(main())
