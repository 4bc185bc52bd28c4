"""State machine of one starter, and its parts.

starter        the machine: dispatches events, and decides how a claim ends
phases         the phases, each with its data
leases         how long it may go on without the daemon
keepalive      when it dials its agent, and when it pings
barrier        the promise, the release, the opening; probes of TCP paths
pacing         progress reports, and a limited share of the time
kv_requests    puts and gets of the program
exit_statuses  exit statuses of processes and ranks
clock_offset   the daemon's clock as this machine sees it; a helper measures its starter's so
"""
