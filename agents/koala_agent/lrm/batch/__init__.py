"""Real batch systems: claims as batch jobs.

batch_manager     submission, polling and ends of claims; the same for all batch systems
claim_tracking    the claims between two polls, what a listing says of them, and what is idle
slurm             the dialect of Slurm; slurm_nodes has the features and GPUs of its nodes
gridengine        the dialect of Grid Engine
htcondor          the dialect of HTCondor; condor_analysis reads why a job waits
oar               the dialect of OAR
pbs               the dialect of OpenPBS and PBS Professional
native            options that a job passes on to the batch system
account_breaker   a circuit breaker for accounts whose commands fail

Each dialect ends with its record. To add one: docs/development/add-a-batch-system.md.
"""
