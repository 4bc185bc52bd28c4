"""Engines by name: where the runs of a campaign are made."""

from __future__ import annotations

from koala.errors import ConfigError
from koala.lab.sim.campaign.execution import PROCESSES, Engine, Processes

DASK = "dask://"
KOALA = "koala"


def engine_of(text: str, workers: int = 0) -> Engine:
    """Return the engine of this name; `workers` limits processes of this machine, and workers at
    Koala's sites. Raises ConfigError."""
    if workers < 0:
        raise ConfigError(f"workers = {workers} (expected 0 or more; 0 means all processors)")
    if text == PROCESSES:
        return Processes(workers=workers)
    if text.startswith(DASK) and text.rpartition(":")[2].isdecimal():
        from koala.lab.sim.campaign.on_dask import Dask  # noqa: PLC0415 - of the extra `sweep`

        return Dask(address=text.removeprefix(DASK))
    name, _, python = text.partition(":")
    if name == KOALA and (python or name == text):
        from koala.lab.on_koala import OnKoala  # noqa: PLC0415 - of the extra `sweep`

        return OnKoala(workers=workers, python=python) if python else OnKoala(workers=workers)
    raise ConfigError(
        f"--on {text} (expected {PROCESSES}, {DASK}HOST:PORT, {KOALA} or {KOALA}:PYTHON)"
    )
