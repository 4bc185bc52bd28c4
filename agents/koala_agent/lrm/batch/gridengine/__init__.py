"""Grid Engine.

system        its record: settings, the doctor's check, what `koala init` asks
dialect       its commands
hosts         slots of its queues, as `qhost` lists them
jobs          `qstat` and `qacct`
reservations  advance reservations
quotas        what resource quota sets leave to a user
"""

from koala_agent.lrm.batch.gridengine.dialect import GridEngine
from koala_agent.lrm.batch.gridengine.system import SYSTEM

__all__ = ["SYSTEM", "GridEngine"]
