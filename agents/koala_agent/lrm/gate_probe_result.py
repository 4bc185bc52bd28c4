"""Result of the last gate probe, in the agent's state directory.

The agent tells it to the daemon. It holds for the gates that there were, and for what of the batch
system's configuration they depend on. Until there is one, and when that changes, the agent makes a
probe by itself, as soon as nobody waits for the processors (`repeated_probe`). Its begin is noted
before its first job: an agent that is killed meanwhile does not begin another one at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from koala.common.identity.private_files import write_private
from koala.common.runtime import clock
from koala_agent.lrm.dialect import Gate

FILE_NAME = "gate-probe.json"
COMMAND = "koala-agent doctor --probe"
AGAIN_S = 3600.0
"""Time after a probe that has shown nothing, or had no end, before the agent makes another."""
LONGEST_S = 900.0
"""A probe that began longer ago does not run any more."""

Known = tuple[tuple[str, bool, str], ...]


class GateTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Trial of gates at an instant in seconds since 1970. `gates` are all that there were then;
    `gate` is the one that kept the place, empty for none, and `lost` are those that lost it. One
    that `begun_at` is later than that has come to no result so far."""

    gate: str = ""
    gates: Known = ()
    at: float = 0.0
    lost: tuple[str, ...] = ()
    begun_at: float = 0.0

    def save(self, folder: Path) -> None:
        """Write it into the folder of the local manager's state, which is made when missing."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(folder / FILE_NAME, msgspec.json.encode(self))


def names_of(gates: Iterable[Gate]) -> Known:
    """Return what of gates shows that the configuration has changed."""
    return tuple((gate.name, gate.keeps_place, gate.under) for gate in gates)


def read_trial(folder: Path) -> GateTrial | None:
    """Read the last trial; None where there is none that can be read."""
    try:
        return msgspec.json.decode((folder / FILE_NAME).read_bytes(), type=GateTrial)
    except (OSError, msgspec.DecodeError):
        return None


def note_begin(folder: Path) -> None:
    """Note that a probe begins; what the last one showed stays."""
    trial = read_trial(folder) or GateTrial()
    msgspec.structs.replace(trial, begun_at=clock.unix_now()).save(folder)


def is_wanted(trial: GateTrial | None, gates: Iterable[Gate]) -> bool:
    """Return True if no probe has shown anything about the gates of now, and none was begun
    lately."""
    if trial is None:
        return True
    age_s = clock.unix_now() - trial.begun_at
    return is_outdated(trial, gates) and not 0 <= age_s < AGAIN_S


def usable_gates(trial: GateTrial | None, gates: Iterable[Gate]) -> list[Gate]:
    """Return the gates that keep a job's place, as far as is known."""
    known = tuple(gates)
    lost = () if trial is None or is_outdated(trial, known) else trial.lost
    return [gate for gate in known if gate.keeps_place and gate.name not in lost]


def is_outdated(trial: GateTrial | None, gates: Iterable[Gate]) -> bool:
    """Return True if the configuration has changed since a trial."""
    return trial is not None and trial.gates != names_of(gates)


def describe_trial(
    trial: GateTrial | None, gates: Iterable[Gate], *, is_automatic: bool = True
) -> str:
    """Say what is known of the gates of now by trial. If it `is_automatic` the agent makes the next
    one by itself."""
    more = "the agent does it when processors are idle" if is_automatic else f"run {COMMAND}"
    if trial is not None and trial.begun_at > trial.at:
        begun = datetime.fromtimestamp(trial.begun_at, UTC)
        if 0 <= clock.unix_now() - trial.begun_at < LONGEST_S:
            return f"probing since {begun:%H:%M} UTC"
        if is_outdated(trial, gates):
            return f"not probed yet: the probe of {begun:%Y-%m-%d} showed nothing; {more}"
    if trial is None or not trial.at:
        return f"not probed yet: {more}"
    day = f"{datetime.fromtimestamp(trial.at, UTC):%Y-%m-%d}"
    if is_outdated(trial, gates):
        return f"tried {day}, before the configuration changed: {more}"
    lost = "".join(f"; {name} LOSES it" for name in trial.lost)
    return f"{'keeps the place' if trial.gate else 'none keeps the place'}: tried {day}{lost}"
