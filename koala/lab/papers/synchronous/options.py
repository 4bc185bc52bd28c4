"""Options of the simulation of subtasks that must advance together: the fields of its setting."""

from koala.lab.papers.options import Declared
from koala.lab.papers.synchronous.simulation.setting import Setting

SIMULATION = Declared.of(Setting)
