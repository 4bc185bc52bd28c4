"""Options of the simulation of jobs with deadlines: the fields of its setting."""

from koala.lab.papers.deadlines.simulation.setting import Setting
from koala.lab.papers.options import Declared

SIMULATION = Declared.of(Setting)
