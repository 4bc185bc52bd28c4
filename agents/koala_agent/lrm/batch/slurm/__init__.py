"""Slurm.

system        its record: settings, programs, what `koala init` asks
dialect       its commands
nodes         processors, features and GPUs of nodes, and how partitions share them
jobs          states and ends of jobs
queue         jobs in the order of their starts, and why they wait
partitions    limits of partitions, associations and qualities of service
reservations  those of bookings, and those of others
gates         its gates, which depend on its configuration
native        options for `sbatch` that jobs may give
"""

from koala_agent.lrm.batch.slurm.dialect import Slurm
from koala_agent.lrm.batch.slurm.system import SYSTEM

__all__ = ["SYSTEM", "Slurm"]
