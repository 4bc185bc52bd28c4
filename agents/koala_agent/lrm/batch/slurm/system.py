"""The record of Slurm."""

from __future__ import annotations

from importlib.resources import files

from koala_agent.lrm.batch.slurm.dialect import Slurm
from koala_agent.lrm.batch_system import BatchSystem, LRMTable, made_as
from koala_agent.starter.batch_rules import BatchRules


class SlurmTable(LRMTable, frozen=True):
    """Account, partition and quality of service of all claims; empty ones are left to Slurm."""

    account: str = ""
    partition: str = ""
    qos: str = ""


SYSTEM = BatchSystem(
    kind="slurm",
    title="Slurm",
    place="a Slurm cluster",
    settings=SlurmTable,
    template=files("koala_agent.lrm.batch") / "slurm.toml",
    dialect=made_as(Slurm),
    programs=("sbatch", "squeue", "scancel", "sinfo", "scontrol", "srun"),
    found_by=("sbatch",),
    variables=("SLURM_CONF",),
    places=("{SLURM_CONF}",),
    job_variables=("SLURM_JOB_ID", "SLURM_*", "SLURMD_*", "SRUN_*"),
    profile={"SBATCH_ACCOUNT": "account", "SBATCH_PARTITION": "partition", "SBATCH_QOS": "qos"},
    lists_gpus=True,
    rules=BatchRules(
        hosts_variable="SLURM_JOB_NODELIST",
        counts_variable="SLURM_TASKS_PER_NODE",
        helpers=(
            *("srun", "--nodes={count}", "--ntasks={count}", "--ntasks-per-node=1"),
            *("--nodelist={hosts}", "--overlap", "--cpu-bind=none", "--export=ALL", "--mpi=none"),
            *("--wait=0", "--kill-on-bad-exit=0"),
        ),
        process_variables=(
            ("SLURM_PROCID", "process"),
            ("SLURM_LOCALID", "local"),
            ("SLURM_NODEID", "host"),
            ("SLURM_NTASKS", "processes"),
            ("SLURM_NPROCS", "processes"),
        ),
        host_variables=("SLURM_", "SLURMD_"),
        needs_keeper=True,
    ),
    tried_with="22.05.8, 24.11.5 and 26.05.5",
)
