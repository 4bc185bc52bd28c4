"""The command line.

- `main.py` maps each command name to its function and imports only the module that is called.
  `koala submit` imports no table code, and `koala --help` imports no gRPC.
- Results go to standard output, everything else to standard error.
- Exit status: 0 done; 1 refused, failed or unknown; 2 wrong usage, RSL or configuration; 3 daemon
  not reachable.

    main.py          command table, errors, exit status
    lazy_group.py    groups that import their commands late
    help_text.py     layout of help texts
    completion.py    completion in the shell
    arguments.py     shared options and their types; definitions (-D), durations
    requests.py      calls to the daemon
    output.py        output of results and messages
    extras.py        optional packages that a command needs
    jobs/            submit, run, list, show, why, timeline, cancel, wait, watch, logs, outputs, rsl
    files.py         files of sites
    notify.py        how a user is told of its jobs
    admin/           sites, users, report, doctor
    top/             top: the grid on a terminal, always current
    render/          documents to text

Absent on purpose: any knowledge of scheduling. The commands show the daemon's answers. Commands of
`koala.local` and `koala.lab`, which stand upon this room, are found by entry points.
"""
