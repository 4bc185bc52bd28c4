"""Names of the phases in which a job has ended, for importers that want nothing else."""

TERMINAL_PHASES = ("Finished", "Failed", "Cancelled")
