"""The command line.

`main.py` knows every command by name and imports only the module of the one that is called, so that
`koala submit` pays for no table and `koala --help` for no gRPC. Results go to standard output,
everything else to standard error. Exit status: 0 done; 1 refused, failed or unknown; 2 wrong usage,
RSL or configuration; 3 daemon not reachable.

    main.py                       commands, errors, exit status
    inputs.py, connection.py      files and -D; asking the daemon
    submit.py, jobs.py, follow.py, sites.py, rsl.py      the commands
    table.py, render.py, figures.py, summary.py, live.py pictures to text; only live.py draws
    grid.py, toml.py, folders.py, processes.py, child.py, running.py   grids on this machine
    up.py, demo.py, scenario.py, show.py    up and daemon; the demo and what it runs

Absent on purpose: any knowledge of scheduling. What is shown is what the daemon says.
"""
