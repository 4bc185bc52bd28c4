"""The probe of gates for `koala-agent doctor`: made with --probe, and its last result without."""

from __future__ import annotations

import secrets
from pathlib import Path

from koala.common.runtime.checkup import NotableError
from koala_agent.assembly import dialect_of
from koala_agent.config_tables import Config
from koala_agent.lrm.gate_probe import NO_GATE, Trial, probe_job
from koala_agent.lrm.gate_probe_result import describe_trial, is_outdated, read_trial, usable_gates
from koala_agent.site_access import reached
from koala_agent.state_folder import lrm_folder

EMULATED = "an emulated queue keeps the places of gated claims"


async def probe_gate(config: Config) -> str:
    """Try the gate in force with two jobs. Raises LocalManagerError where it loses the place, and
    NotableError where there is none, or the queue was too long to see it."""
    if config.system.is_emulated:
        return f"{EMULATED}: nothing to probe"
    dialect = dialect_of(config)
    async with reached(config) as site:
        gates = dialect.read_gates(tuple([await site.run(command) for command in dialect.gates()]))
        trial = Trial(
            dialect,
            ask=site.run,
            act=site.run,
            poll_s=config.lrm.poll_s,
            scope=f"doctor{secrets.token_hex(2)}",
        )
        usable = [gate for gate in gates if gate.keeps_place]
        folder = Path(config.agent.state_dir)
        return await trial.try_all(gates, usable, probe_job(folder), lrm_folder(folder))


async def recorded_gate(config: Config) -> str:
    """Say which gate is in force, and what the last probe saw. Raises NotableError where there is
    none, or none was tried."""
    if config.system.is_emulated:
        return EMULATED
    dialect = dialect_of(config)
    async with reached(config) as site:
        gates = dialect.read_gates(tuple([await site.run(command) for command in dialect.gates()]))
    trial = read_trial(lrm_folder(Path(config.agent.state_dir)))
    usable = usable_gates(trial, gates)
    tried = describe_trial(trial, gates, is_automatic=config.lrm.gate_probe)
    words = f"{usable[0].name if usable else NO_GATE} ({tried})"
    if not usable or trial is None or trial.lost or is_outdated(trial, gates):
        raise NotableError(words)
    return words
