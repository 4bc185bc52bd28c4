"""The claims' folders of a site, and the starter that is installed among them.

All calls but `folder` read or write the disk; drivers make them in threads.
"""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from koala.common.protocol.names import ClaimId
from koala.common.runtime import clock
from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError, SpecError
from koala_agent.claims import states
from koala_agent.claims.folder import StarterRecord, folder_name
from koala_agent.claims.states import Claim
from koala_agent.lrm.local_manager import Ended, Placeholder
from koala_agent.placeholders import starter_installation
from koala_agent.placeholders import submission as placeholders
from koala_agent.placeholders.allowed_programs import NotAllowedError
from koala_agent.placeholders.cleanup import remove_all
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.placeholders.submission import Preparation
from koala_agent.starter.program import STATE_FOLDER

if TYPE_CHECKING:
    from koala_agent.placeholders.logs import LogSource
    from koala_agent.transport.ssh_connection import AgentEndpoint

log = get_logger()


class ClaimFolders:
    """Folders on the file system of this machine."""

    def __init__(
        self, settings: LaunchSettings, *, endpoint: Callable[[], AgentEndpoint] | None = None
    ) -> None:
        """`endpoint` returns where starters reach the agent, if that is not its own port."""
        self._settings = settings
        self._endpoint = endpoint
        self._command: tuple[str, ...] = ()
        self._stamps: starter_installation.Stamps | None = None
        self._installing = threading.Lock()

    @property
    def is_shared(self) -> bool:
        """True when the machines of claims see these folders."""
        return self._settings.shared

    def install(self) -> None:
        """Install the starter. Raises OSError."""
        self._command = starter_installation.install_starter(self._settings)

    def folder(self, claim: ClaimId) -> Path:
        """Return the working directory of the claim's program."""
        return self._settings.folder(claim)

    def prepare(self, orders: Sequence[Preparation]) -> list[Placeholder | Exception]:
        """Make the claims' folders, with the staged files of archives; return their batch jobs. A
        starter that somebody removed is installed again first.

        In the place of a claim's batch job stands its error: OSError, SpecError, NotAllowedError,
        and LocalManagerError while starters could not reach the agent.
        """
        try:
            with self._installing:
                self._check_starter()
        except OSError as error:
            return [error] * len(orders)
        return [self._try_to_prepare(order) for order in orders]

    def _try_to_prepare(self, order: Preparation) -> Placeholder | Exception:
        settings, port = self._settings, order.port
        try:
            if self._endpoint is not None:
                endpoint = self._endpoint()
                port, agents = endpoint.port, settings.agents or endpoint.addresses
                settings = replace(settings, agents=agents)
            return placeholders.prepare(replace(order, port=port), settings, command=self._command)
        except (OSError, SpecError, NotAllowedError, LocalManagerError) as error:
            return error

    def _check_starter(self) -> None:
        """Install the starter again if it is not complete, which is checked after any change."""
        stamps = starter_installation.stamps_of(self._settings, self._command)
        if stamps == self._stamps:
            return
        if not starter_installation.is_installed(self._settings, self._command):
            log.warning("starter.reinstalled", folder=str(self._settings.root))
            self.install()
            stamps = starter_installation.stamps_of(self._settings, self._command)
        self._stamps = stamps

    def record(self, claim: ClaimId) -> StarterRecord | None:
        """Read the record that the claim's starter left. Raises OSError when the read failed."""
        return placeholders.read_record(claim, self._settings)

    def why_unstarted(self, ended: Ended) -> str:
        """Explain the end of a batch job whose starter did not start; else empty."""
        return placeholders.why_unstarted(ended, self._settings)

    def log_source(self, claim: ClaimId, stored: Claim | None) -> LogSource | None:
        """Locate the output of a claim, perhaps a forgotten one; None when its folder is gone."""
        is_ended = stored is None or isinstance(stored.state, states.Ended | states.Gone)
        return placeholders.log_source(claim, self._settings, is_ended=is_ended)

    def find_old(self, keep_s: float) -> list[Path]:
        """List what did not change for `keep_s`. Programs can rename their claims' folders and
        leave links and files beside them, so everything that belongs to no known claim goes.
        Raises OSError."""
        before = clock.unix_now() - keep_s
        old = []
        for path in sorted(self._settings.root.iterdir()):
            with suppress(OSError):  # removed meanwhile
                if path.name != starter_installation.STARTERS and _last_written_at(path) < before:
                    old.append(path)
        return old

    def remove(self, old: list[Path], *, known: Collection[ClaimId]) -> None:
        """Remove what was found old, but the folders of these claims."""
        kept = {folder_name(claim) for claim in known}
        remove_all([path for path in old if path.name not in kept])


def _last_written_at(path: Path) -> float:
    """Return the wall-clock time of the starter's last write; the creation time of anything but a
    claim's folder. Uses the change time (ctime), because programs can set the others, even to a
    future year."""
    status = path.lstat()
    state = path / STATE_FOLDER
    if stat.S_ISDIR(status.st_mode) and state.is_dir():
        return max(status.st_ctime, state.lstat().st_ctime)
    return status.st_ctime
