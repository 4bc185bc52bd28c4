"""Collection of a claim's outputs and logs: their upload to the daemon's spool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from koala.common.files.orders import Uploaded, UploadOrder
from koala.common.protocol.messages import Program
from koala.common.runtime.threads import in_thread
from koala_agent.claim_surroundings import check_outputs
from koala_agent.claims.states import Claim
from koala_agent.link.session_status import SessionStatus
from koala_agent.placeholders.result_files import matched_paths, missing, upload_order


class OutputCollection:
    """Collects outputs for the claim driver; with `may_leave` also outside the claim's folder."""

    def __init__(
        self,
        session_status: SessionStatus,
        upload: Callable[[UploadOrder], Awaitable[tuple[Uploaded, ...]]],
        *,
        may_leave: bool,
    ) -> None:
        self._session_status = session_status
        self._upload = upload
        self._may_leave = may_leave

    async def collect(self, claim: Claim, folder: Path) -> str:
        """Upload outputs and logs to the spool; return which outputs did not arrive."""
        session_status = self._session_status
        await session_status.welcomed()  # the daemon says where its relay is
        while True:
            if not session_status.relay:
                # Without a relay the outputs stay here.
                return await check_outputs(claim, folder, may_leave=self._may_leave)
            connection = session_status.connection
            matched, problem = await self._matched(claim.hold.program, folder)
            order = upload_order(
                claim,
                folder,
                relay=session_status.relay,
                may_leave=self._may_leave,
                matched=matched,
            )
            reason = "; ".join(filter(None, (missing(await self._upload(order)), problem)))
            if not reason or (session_status.is_live and connection == session_status.connection):
                return reason
            # The daemon was away, and its relay with it: that is no fault of the program's.
            await session_status.live()

    async def _matched(self, program: Program, folder: Path) -> tuple[dict[str, str], str]:
        """Return the outputs that patterns match; only they need a look at the disk."""
        if not program.outputs:
            return {}, ""
        return await in_thread(matched_paths, program, folder, may_leave=self._may_leave)
