"""Result of the last gate probe, in the agent's state directory.

The agent tells it to the daemon. It holds for the gates that there were, and for what of the batch
system's configuration they depend on. When that changes the agent makes another probe by itself, as
soon as nobody waits for the processors; the first one is for `koala-agent doctor --probe`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from koala.common.identity.private_files import write_private
from koala_agent.lrm.dialect import Gate

FILE_NAME = "gate-probe.json"
AGAIN = "koala-agent doctor --probe"


Known = tuple[tuple[str, bool, str], ...]


class GateTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Trial of gates at an instant in seconds since 1970. `gates` are all that there were then;
    `gate` is the one that kept the place, empty for none, and `lost` are those that lost it."""

    gate: str
    gates: Known
    at: float
    lost: tuple[str, ...] = ()

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


def usable_gates(trial: GateTrial | None, gates: Iterable[Gate]) -> list[Gate]:
    """Return the gates that keep a job's place, as far as is known."""
    known = tuple(gates)
    lost = () if trial is None or is_outdated(trial, known) else trial.lost
    return [gate for gate in known if gate.keeps_place and gate.name not in lost]


def is_outdated(trial: GateTrial | None, gates: Iterable[Gate]) -> bool:
    """Return True if the configuration has changed since a trial."""
    return trial is not None and trial.gates != names_of(gates)


def describe_trial(trial: GateTrial | None, gates: Iterable[Gate]) -> str:
    """Say what is known of the gates of now by trial."""
    if trial is None:
        return f"never tried: {AGAIN}"
    day = f"{datetime.fromtimestamp(trial.at, UTC):%Y-%m-%d}"
    if is_outdated(trial, gates):
        return f"tried {day}, before the configuration changed: tried again when nobody waits"
    lost = "".join(f"; {name} LOSES it" for name in trial.lost)
    return f"{'keeps the place' if trial.gate else 'none keeps the place'}: tried {day}{lost}"
