"""Real batch systems on this machine, brought up by the scripts in deploy/dev.

system      what all have
slurm       Slurm clusters
gridengine  Grid Engine cells
htcondor    HTCondor pools
oar         OAR clusters
grids       daemon and agents in front of them
"""
