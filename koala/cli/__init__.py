"""The command line.

- `main.py` maps each command name to its function and imports only the module that is called.
  `koala submit` imports no table code, and `koala --help` imports no gRPC.
- Results go to standard output, everything else to standard error.
- Exit status: 0 done; 1 refused, failed or unknown; 2 wrong usage, RSL or configuration; 3 daemon
  not reachable.

    main.py          command table, errors, exit status
    lazy_group.py    groups that import their commands late
    completion.py    completion in the shell
    arguments.py     shared options and their types; files, -D definitions, durations
    connection.py    calls to the daemon, output of results
    jobs/            submit, list, show, why, timeline, cancel, wait, watch, logs, outputs, rsl
    admin/           sites, users, authority, backup, report
    local/           up, daemon and demo: a grid on this machine
    research/        simulate, replay, reproduce
    render/          documents to text

Absent on purpose: any knowledge of scheduling. The commands show the daemon's answers.
"""
