"""Digital twin: the recorded jobs of real clusters, and what co-allocation would have done to them.

- `records`: a job as a batch system has recorded it, and what was left out, in words.
- `instants`: times and time limits as batch systems write them.
- `sacct`, `qacct`: readers of the output of both commands.
- `folders`: the twin on disk: a log for each site, and a grid file.
- `questions`: jobs that could have been co-allocated, with and without which the twin is run.
- `durations`: durations as a report writes them.
- `answers`: the report of one page.
"""
