"""Options of the simulation of subtasks that must advance together: the fields of its setting."""

from koala.papers.options import Declared
from koala.papers.synchronous.simulation.setting import Setting

SIMULATION = Declared.of(Setting)
