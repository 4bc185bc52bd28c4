"""Services of the operating system that every process of Koala uses.

atomic_file          write a file beside its place and rename it at the end
checkup              checks of `koala doctor` and `koala-agent doctor`
child_lifetime       end workers with the process that made them
clock                the clocks of this machine
disk_space           free space on the disk of a state directory; refuse new work without it
disk_formats         version numbers of all formats on disk
driver               drive a state machine: events and a timer in, outputs out
foreign              call functions of other packages, and fall back
freed_memory         what the C library keeps of large buffers
option_values        numbers, lists, ranges and names of options, as text
plugins              functions of users that settings name
paths                paths as people write them in configuration files
progress_bar         show how far a long operation is
service              notify the service manager; processes in the background
settings_file        parse settings files; name what is wrong in them
software             the version of this software; optional packages that are missing
sqlite_store         rules of every SQLite database; the lock of a state directory
standard_streams     reopen closed standard streams; drop what a log cannot write
structured_log       log of daemons and agents: loggers, where their lines go, their rate
threads              start worker threads; wait for one; batch short calls in one
token_bucket         the rate limit with bursts that quotas and file copies share
"""
