"""The record of Grid Engine: its table, what the doctor checks, and what a host tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Annotated

import msgspec

from koala.common.runtime.settings_file import matching
from koala.errors import ConfigError, LocalManagerError
from koala_agent.lrm.batch.gridengine.dialect import GridEngine
from koala_agent.lrm.batch_system import Answers, BatchSystem, LRMTable, Setting, made_as
from koala_agent.lrm.dialect import is_count
from koala_agent.starter.batch_rules import BatchRules
from koala_agent.transport.interface import Command, CommandRunner


class GridEngineTable(LRMTable, frozen=True, kw_only=True):
    """Parallel environment, queue and project of all claims; `gpu_resource` is the complex that
    counts the cell's GPUs."""

    queue: str = ""
    parallel_environment: Annotated[str, msgspec.Meta(min_length=1)]
    project: str = ""
    gpu_resource: Annotated[
        str, matching(r"^[A-Za-z_][A-Za-z0-9_.]{0,63}$", "the name of a complex")
    ] = "gpu"


async def _check(table: GridEngineTable, site: CommandRunner) -> None:
    """Check the parallel environment: a wrong one looks like a full cell."""
    answer = await site.run(Command(argv=("qconf", "-spl")))
    if answer.status:
        raise LocalManagerError(f"qconf -spl: {answer.complaint()}")
    if table.parallel_environment not in (known := answer.out.split()):
        raise ConfigError(
            f"lrm.parallel_environment = {table.parallel_environment!r} (expected"
            f" {' or '.join(known) or 'one: an administrator makes one with qconf -ap'})"
        )


SURVEY = r"""
for e in $(qconf -spl 2>/dev/null); do say environment $e; done
for n in $(qhost -F gpu 2>/dev/null | sed -n 's/.*:gpu=\([0-9]*\).*/\1/p'); do say gpus $n; done
"""


def _configure(answers: Answers, wishes: Mapping[str, str]) -> Iterator[Setting]:
    """Choose the parallel environment: the wished one, or the only one there is; count GPUs."""
    key, known = "lrm.parallel_environment", answers.get("environment", ())
    wished = wishes.get("parallel_environment", "")
    if wished in known:
        yield Setting(key=key, value=wished, reason="as you wish")
    elif len(known) == 1 and not wished:
        yield Setting(key=key, value=known[0], reason="the only one that `qconf -spl` lists")
    else:
        words = f"choose one that `qconf -spl` lists: {', '.join(known) or 'there is none'}"
        yield Setting(key=key, reason=words, is_needed=True)
    if gpus := sum(int(word) for word in answers.get("gpus", ()) if is_count(word)):
        reason = "free now, by `qhost -F gpu`; give all that there are"
        yield Setting(key="site.gpus", value=gpus, reason=reason)


SYSTEM = BatchSystem(
    kind="gridengine",
    title="Grid Engine",
    place="a Grid Engine cell",
    settings=GridEngineTable,
    template=files("koala_agent.lrm.batch") / "gridengine.toml",
    dialect=made_as(GridEngine),
    programs=("qsub", "qstat", "qdel", "qhold", "qrls", "qacct", "qconf", "qrsh"),
    found_by=("qsub", "qconf"),
    job_variables=(
        *("JOB_ID", "JOB_NAME", "JOB_SCRIPT", "SGE_TASK_*", "SGE_O_*", "SGE_STD*_PATH"),
        *("SGE_CWD_PATH", "SGE_CKPT_*", "SGE_ACCOUNT", "SGE_JOB_SPOOL_DIR", "SGE_BINDING"),
        *("SGE_RSH_COMMAND", "QUEUE", "PE", "PE_HOSTFILE", "NSLOTS", "NHOSTS", "NQUEUES", "ARC"),
        *("REQUEST", "REQNAME", "RESTARTED", "ENVIRONMENT", "TMP", "TMPDIR"),
    ),
    places=("{SGE_ROOT}", "{SGE_ROOT}/{SGE_CELL}/common"),
    variables=("SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "SGE_ARCH"),
    rules=BatchRules(
        hosts_file_variable="PE_HOSTFILE",
        helpers=("qrsh", "-inherit", "{host}"),
        passes_suspension=True,
        needs_keeper=True,
    ),
    check=_check,
    survey=SURVEY,
    configure=_configure,
    tried_with="Son of Grid Engine 8.1.9",
)
