"""The daemon's spool: a folder of the jobs' outputs and logs, written by the relay.

    jobs/<job>/attempt-<n>/<component>/output/<name>     as received
    jobs/<job>/attempt-<n>/<component>/log/<name>        stdout.0, stderr.0 ...
    jobs/<job>/attempt-<n>/<component>/label             the component's label
    jobs/<job>/output/<label>/<name>                     published: of the attempt that Finished
    jobs/<job>/published                                 its number
    jobs/<job>/given-up                                  the last attempt of a job that Failed
    incoming/                                            bytes so far, from which a sender goes on

- Files appear by an atomic rename, after they were synced to disk.
- Ids and labels are escaped and file names checked, so no name leads out of the spool.
- All calls block.
- A job that is over keeps only its last attempt's logs, and its outputs if it Finished. Any other
  file that arrives later is refused.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from koala.common.files.confined_folder import Folder
from koala.common.files.names import check_name, escape, shown
from koala.common.identity.private_files import private_folder
from koala.common.protocol.names import SpooledName
from koala.common.runtime.clock import unix_now
from koala.errors import RejectedError, SpecError

_CLAIM = re.compile(r"(?P<job>[^/]+)/(?P<attempt>[1-9]\d{0,8})/(?P<component>\d{1,6})/\d{1,9}")
_LABEL_BYTES_MAX = 1024
PART_KEPT_S = 1800.0
"""Time for which the bytes so far are kept after the last one: senders give up before."""
PUBLISHED = "published"
GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptComponent:
    """Component in an attempt of a job."""

    job: str
    attempt: int
    component: int


def component_of_claim(claim: str) -> AttemptComponent:
    """Parse a claim `job/attempt/component/n` to its component. Raises SpecError."""
    match = _CLAIM.fullmatch(claim)
    if match is None:
        raise SpecError(f"claim {shown(claim)} (expected job/attempt/component/n)")
    return AttemptComponent(
        job=match["job"], attempt=int(match["attempt"]), component=int(match["component"])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """Job that is over; `attempt` was its last."""

    job: str
    attempt: int
    is_finished: bool


class Spool:
    """Spool in `folder`, which is created when missing, private to this user.

    `folder` may be a link to a larger disk. Raises ConfigError when other accounts may use it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.incoming = folder / "incoming"
        for made in (folder, self.incoming):
            private_folder(made.resolve())

    def logs(self, place: AttemptComponent) -> Path:
        """Return the folder of a component's logs."""
        return self._component(place) / "log"

    def log(self, place: AttemptComponent, name: str) -> Path:
        """Return the path of one log. Raises SpecError."""
        return self.logs(place).joinpath(*check_name(name))

    def outputs(self, place: AttemptComponent) -> Path:
        """Return the folder of a component's outputs, as received."""
        return self._component(place) / "output"

    def published(self, job: str) -> Path:
        """Return the folder of the outputs of a Finished job: `<label>/<name>`."""
        return self._job(job) / "output"

    def published_files(
        self, job: str, components: Mapping[int, str] | None = None
    ) -> tuple[Folder, list[tuple[str, int]]]:
        """Return the folder of published outputs, and its names with sizes in bytes, in order.

        `components` selects by index and label; None selects all.
        """
        folder = Folder(self.published(job))
        chosen = {
            name
            for index, label in (components or {}).items()
            for name in _visible_names(index, label)
        }
        return folder, [
            (name, stamp.size_bytes)
            for name, stamp in folder.listing()
            if components is None or name.partition("/")[0] in chosen
        ]

    def part(self, spooled: SpooledName) -> Path:
        """Return the path of the bytes so far of a file."""
        return self.incoming / f"{escape(str(spooled))}.part"

    def store(self, part: Path, spooled: SpooledName, label: str) -> None:
        """Move a durable file from `incoming` to its place. Raises SpecError, OSError."""
        place = self.check(spooled, label)
        self._note(self._component(place) / "label", label)
        folder = self.logs(place) if spooled.is_log else self.outputs(place)
        Folder(folder).take(part, spooled.name)

    def check(self, spooled: SpooledName, label: str) -> AttemptComponent:
        """Check that `store` would accept a file, before it is sent. Raises SpecError."""
        check_name(spooled.name)
        _check_label(label)
        place = component_of_claim(spooled.claim)
        for marker, is_wanted in ((PUBLISHED, True), (GIVEN_UP, spooled.is_log)):
            last = self._read(place.job, marker)
            is_welcome = is_wanted and last == str(place.attempt)
            if last and not is_welcome and not _is_before(last, place.attempt):
                reason = "the job is over, and does not need it"
                raise SpecError(f"{shown(spooled.name)} of {spooled.claim}: {reason}")
        return place

    def finish(self, ended: EndedJob) -> None:
        """Publish the outputs of a Finished job, and delete those of another. Idempotent.

        Raises as `publish` does.
        """
        if ended.is_finished:
            self.publish(ended.job, ended.attempt)
        else:
            self.give_up(ended.job, ended.attempt)

    def publish(self, job: str, attempt: int) -> tuple[str, ...]:
        """Make the outputs of the attempt that Finished visible; return their names.

        Idempotent; outputs that arrived since appear, too. Files of other attempts are deleted.
        Raises RejectedError when a later attempt was published.
        """
        self._claim_publication(job, attempt)
        components = self._components(job, attempt)
        labels = {place: self._label(place) for place in components}
        uses = Counter(labels.values())
        names = []
        for place, label in labels.items():
            # Two components with one label must not overwrite each other.
            alone, numbered = _visible_names(place.component, label)
            visible = alone if uses[label] == 1 else numbered
            source = Folder(self.outputs(place))
            target = Folder(self.published(job) / visible)
            for name, _ in source.listing():
                source.link(name, target, name)
                names.append(f"{visible}/{name}")
        self._remove_others(job, attempt)
        return tuple(names)

    def give_up(self, job: str, attempt: int) -> None:
        """Delete all files of a Failed or Cancelled job but the logs of its last attempt."""
        self._note(self._job(job) / GIVEN_UP, str(attempt))
        self._remove_others(job, attempt)
        for place in self._components(job, attempt):
            with suppress(FileNotFoundError):
                shutil.rmtree(self.outputs(place))

    def free_bytes(self) -> int:
        """Return the free space of the disk."""
        return shutil.disk_usage(self._folder).free

    def sweep(self) -> None:
        """Delete incomplete files that no sender goes on with."""
        before = unix_now() - PART_KEPT_S
        for path in sorted(self.incoming.iterdir()):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    path.unlink()

    def _claim_publication(self, job: str, attempt: int) -> None:
        known = self._read(job, PUBLISHED)
        if not known or _is_before(known, attempt):
            with suppress(FileNotFoundError):
                shutil.rmtree(self.published(job))
            self._note(self._job(job) / PUBLISHED, str(attempt))
        elif known != str(attempt):
            raise RejectedError(
                f"outputs of attempt {known} of {job} are published; attempt {attempt} cannot be"
            )

    def _read(self, job: str, marker: str) -> str:
        """Read the attempt in a marker of a job; empty where there is none."""
        try:
            return _text(self._job(job) / marker)
        except FileNotFoundError:
            return ""

    def _remove_others(self, job: str, attempt: int) -> None:
        """Delete the files of other attempts."""
        for folder in sorted(self._job(job).glob("attempt-*")):
            if folder.name != f"attempt-{attempt}":
                with suppress(FileNotFoundError):
                    shutil.rmtree(folder)

    def _components(self, job: str, attempt: int) -> tuple[AttemptComponent, ...]:
        """List the components that have sent a file, in order."""
        folder = self._job(job) / f"attempt-{attempt}"
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return tuple(
            AttemptComponent(job=job, attempt=attempt, component=component)
            for component in sorted(int(name) for name in names if name.isdecimal())
        )

    def _label(self, place: AttemptComponent) -> str:
        """Label recorded by the relay; the component's index without one."""
        try:
            text = _text(self._component(place) / "label")
        except FileNotFoundError:
            text = ""
        return text or str(place.component)

    def _note(self, path: Path, text: str) -> None:
        """Replace a small file atomically, unless it already has this content."""
        with suppress(FileNotFoundError):
            if _text(path) == text:
                return
        part = self.incoming / f"{secrets.token_hex(8)}.note"
        try:
            with part.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Folder(path.parent).take(part, path.name)
        except OSError:
            part.unlink(missing_ok=True)
            raise

    def _job(self, job: str) -> Path:
        return self._folder / "jobs" / escape(job)

    def _component(self, place: AttemptComponent) -> Path:
        return self._job(place.job) / f"attempt-{place.attempt}" / str(place.component)


def _visible_names(component: int, label: str) -> tuple[str, str]:
    """Return the folder of a component's published outputs, and the one used when its label is not
    unique."""
    return escape(label), f"{escape(label)}.{component}"


def _is_before(marked: str, attempt: int) -> bool:
    """Return True when a marker is of an earlier attempt.

    An attempt after a job's end exists only where the journal lost that end: the job then ran once
    more, and its new end counts.
    """
    return marked.isdecimal() and int(marked) < attempt


def _text(path: Path) -> str:
    """Read a small file; damaged bytes are replaced and are no error."""
    return path.read_text(encoding="utf-8", errors="replace")


def _check_label(label: str) -> None:
    try:
        is_right = len(label.encode()) <= _LABEL_BYTES_MAX
    except UnicodeEncodeError:
        is_right = False
    if not is_right:
        raise SpecError(
            f"label {shown(label)} (expected at most {_LABEL_BYTES_MAX} bytes of UTF-8)"
        )
