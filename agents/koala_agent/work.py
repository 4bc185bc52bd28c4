"""The work folders of claims, and who touches them.

Claims that run as the agent's own account have folders in its state directory, which it reads and
writes itself. Claims that run as another account have theirs in a folder of that account; whatever
is done there is done by `hand.py` as the account, so that the folder belongs to it, nobody else can
read it, and no link in it leads the agent anywhere.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from koala_agent import placeholders
from koala_agent.hands import AccountError, Hands
from koala_agent.logs import CHUNK_MAX_BYTES, LogChunk, LogRequest, LogSource, names_of, read_log
from koala_agent.logs import not_read as log_error
from koala_agent.placeholders import Place, Plan, Starter
from koala_agent.values import ClaimId, StarterRecord, folder_name


class Work(Protocol):
    """What is done in work folders. Raises OSError and AccountError."""

    async def prepare(self, plan: Plan) -> None:
        """Makes the claim's folder, with all that its starter reads."""

    async def record(self, claim: ClaimId) -> StarterRecord | None:
        """What the claim's starter wrote down; None when it wrote nothing that can be read."""

    async def read_log(self, request: LogRequest, *, is_ended: bool) -> LogChunk | None:
        """What a program of the claim wrote; None when the folder is gone."""

    async def sweep(self, kept: Collection[str], before: float) -> None:
        """Removes folders that nobody touched since then, but those of these names."""


class OwnWork:
    """Folders in the agent's own state directory."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def prepare(self, plan: Plan) -> None:
        """See Work."""
        await asyncio.to_thread(placeholders.write_plan, plan)

    async def record(self, claim: ClaimId) -> StarterRecord | None:
        """See Work."""
        return await asyncio.to_thread(placeholders.read_record, claim, self._place)

    async def read_log(self, request: LogRequest, *, is_ended: bool) -> LogChunk | None:
        """See Work."""
        claim = ClaimId(request.claim)
        source = placeholders.log_source(claim, self._place, is_ended=is_ended)
        return None if source is None else await asyncio.to_thread(read_log, request, source)

    async def sweep(self, kept: Collection[str], before: float) -> None:
        """See Work."""
        await asyncio.to_thread(self._remove_old, kept, before)

    def _remove_old(self, kept: Collection[str], before: float) -> None:
        for folder in sorted(self._place.root.iterdir()):
            try:
                is_old = folder.is_dir() and _touched_at(folder) < before
            except OSError:
                continue  # going away by itself
            if is_old and folder.name not in kept and not folder.name.startswith("."):
                shutil.rmtree(folder, ignore_errors=True)


class AccountWork:
    """Folders of one account. `spool` is the agent's own, where outputs stay for a moment."""

    def __init__(
        self, account: str, place: Place, hands: Hands, *, starter: Starter, spool: Path
    ) -> None:
        self._account = account
        self._root = place.root_of(account)
        self._hands = hands
        self._starter = starter
        self._spool = spool

    async def prepare(self, plan: Plan) -> None:
        """See Work. The starter is installed when it is found missing: the account may have tidied
        up."""
        request: dict[str, object] = {
            "do": "prepare",
            "folder": plan.folder.name,
            "installed": self._starter.place,
        }
        spec = json.dumps(plan.spec).encode()
        answer, _ = await self._ask(request, given=spec)
        if "lacks" in answer:
            await self._install()
            answer, _ = await self._ask(request, given=spec)
        if "lacks" in answer:
            raise AccountError(f"as {self._account}: the starter cannot be kept in {self._root}")

    async def record(self, claim: ClaimId) -> StarterRecord | None:
        """See Work."""
        state = str(self._root / folder_name(claim) / placeholders.STATE_FOLDER)
        found: list[dict[str, object] | None] = []
        for name in ("passed.json", "end.json"):
            with suppress(AccountError):
                _, data = await self._ask(
                    {
                        "do": "read",
                        "files": [[state, name]],
                        "offset": 0,
                        "size": placeholders.RECORD_MAX_BYTES,
                    }
                )
                found.append(placeholders.object_of(data))
                continue
            found.append(None)
        return placeholders.record_of(found[0], found[1])

    async def read_log(self, request: LogRequest, *, is_ended: bool) -> LogChunk | None:
        """See Work."""
        claim = ClaimId(request.claim)
        folder = self._root / folder_name(claim)
        spec = [str(folder / placeholders.STATE_FOLDER), "spec.json"]
        _, data = await self._read([spec], offset=0, size=placeholders.RECORD_MAX_BYTES)
        found = placeholders.object_of(data)
        if found is None:
            return None
        source = placeholders.log_source_of(found, folder, is_ended=is_ended)
        try:
            return await self._read_log(request, source)
        except AccountError as error:
            return log_error(request, str(error))

    async def _read_log(self, request: LogRequest, source: LogSource) -> LogChunk:
        size_max = min(request.size_max or CHUNK_MAX_BYTES, CHUNK_MAX_BYTES)
        files = [_below(source.folder, name) for name in names_of(request, source)]
        answer, data = await self._read(files, offset=request.offset, size=size_max)
        if answer.get("found") is None:
            if source.is_ended:
                return log_error(request, f"process {request.process} wrote no {request.stream}")
            return LogChunk(request=request.request, offset=request.offset)
        size = answer.get("bytes")
        is_all = not isinstance(size, int) or request.offset + len(data) >= size
        return LogChunk(
            request=request.request,
            offset=request.offset,
            data=data[:size_max],
            is_over=source.is_ended and is_all,
        )

    async def sweep(self, kept: Collection[str], before: float) -> None:
        """See Work."""
        await self._ask({"do": "sweep", "kept": sorted(kept), "before": before})

    async def give(self, claim: ClaimId, name: str, file: BinaryIO, size: int) -> None:
        """Writes so many bytes of an open file, from where it stands, into the claim's folder."""
        request = {
            "do": "write",
            "root": str(self._root),
            "folder": folder_name(claim),
            "name": name,
            "size": size,
        }
        await self._hands.hand_over(self._account, request, file, size)

    def spool(self, claim: ClaimId) -> Path:
        """Where `fetch` puts files of this claim."""
        return self._spool / folder_name(claim)

    async def fetch(self, claim: ClaimId, files: dict[str, Path]) -> dict[str, Path]:
        """Copies files of the claim into the spool, by their places there; those that came."""
        folder = self._root / folder_name(claim)
        targets = {name: self.spool(claim) / name for name in files}
        request = {
            "do": "pack",
            "root": str(self._root),
            "is_asking": False,
            "files": [_below(folder, str(path)) for path in files.values()],
        }
        errors = await self._hands.pack(self._account, request, list(targets.values()))
        return {
            name: path
            for (name, path), error in zip(targets.items(), errors, strict=True)
            if not error
        }

    def discard(self, claim: ClaimId) -> None:
        """What `fetch` copied is of no use any more."""
        shutil.rmtree(self.spool(claim), ignore_errors=True)

    async def _install(self) -> None:
        files = await asyncio.to_thread(_tree, self._starter.folder)
        request: dict[str, object] = {"do": "install", "place": self._starter.place}
        await self._ask(request, given=json.dumps(files).encode())

    async def _read(
        self, files: list[list[str]], *, offset: int, size: int
    ) -> tuple[dict[str, object], bytes]:
        return await self._ask({"do": "read", "files": files, "offset": offset, "size": size})

    async def _ask(
        self, request: dict[str, object], *, given: bytes = b""
    ) -> tuple[dict[str, object], bytes]:
        return await self._hands.ask(
            self._account, {"root": str(self._root), **request}, given=given
        )


def _below(folder: Path, name: str) -> list[str]:
    """A name that is opened below the claim's folder; one that a job gave outside of it is opened
    below its own folder: that is the account's own business."""
    path = PurePosixPath(name)
    if not path.is_absolute():
        return [str(folder), name]
    if path.is_relative_to(folder):
        return [str(folder), str(path.relative_to(folder))]
    return [str(path.parent), path.name]


def _tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): base64.b64encode(path.read_bytes()).decode()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _touched_at(folder: Path) -> float:
    """When the starter last wrote, in wall-clock time."""
    state = folder / placeholders.STATE_FOLDER
    return max(folder.stat().st_mtime, state.stat().st_mtime if state.is_dir() else 0.0)
