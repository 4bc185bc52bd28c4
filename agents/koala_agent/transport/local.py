"""The local transport: the agent runs where the commands of the batch system are."""

from __future__ import annotations

import asyncio
from typing import Any

from koala_agent.transport import file_calls
from koala_agent.transport.shell import Shell
from koala_agent.transport.site_files import SiteFilesByCalls


class LocalTransport(Shell, SiteFilesByCalls):
    """`Transport` on this machine."""

    async def _call(self, name: str, path: bytes, *arguments: object) -> Any:  # noqa: ANN401
        return await asyncio.to_thread(file_calls.call, name, path, *arguments)
