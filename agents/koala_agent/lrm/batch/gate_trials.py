"""Result of the last gate probe, in the agent's state directory.

`koala-agent doctor --probe` writes it, and the agent tells it to the daemon. It holds for the gates
that the configuration of the batch system allowed at that time: with others the probe must be
repeated, which is said and not done, because its jobs take the place of others'.
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


class GateTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Trial of a gate at an instant in seconds since 1970; `gates` are all that there were then,
    with whether they should keep the place, and `is_kept` is whether this one did."""

    gate: str
    gates: tuple[tuple[str, bool], ...]
    at: float
    is_kept: bool

    def save(self, folder: Path) -> None:
        """Write it into the folder of the local manager's state, which is made when missing."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(folder / FILE_NAME, msgspec.json.encode(self))


def names_of(gates: Iterable[Gate]) -> tuple[tuple[str, bool], ...]:
    """Return what of gates shows that the configuration has changed."""
    return tuple((gate.name, gate.keeps_place) for gate in gates)


def read_trial(folder: Path) -> GateTrial | None:
    """Read the last trial; None where there is none that can be read."""
    try:
        return msgspec.json.decode((folder / FILE_NAME).read_bytes(), type=GateTrial)
    except (OSError, msgspec.DecodeError):
        return None


def describe_trial(trial: GateTrial | None, gates: tuple[tuple[str, bool], ...]) -> str:
    """Say what is known of the gates of now by trial."""
    if trial is None:
        return f"never tried: {AGAIN}"
    day = f"{datetime.fromtimestamp(trial.at, UTC):%Y-%m-%d}"
    if trial.gates != gates:
        return f"tried {day}, before the configuration changed: repeat {AGAIN}"
    return f"{'keeps' if trial.is_kept else 'LOSES'} the place: tried {day}"
