"""Claims of a site: their states, their storage, and their reports to the daemon.

table                the claim table, a pure state machine: from the ask and its grace time to the
                     end; `events`, `states`, `ends` are its parts
refusals             what the site's owner allows: users, sizes, holds, tickets, bookings
settings             leases of starters, and limits of the site
folder               the claim's folder; `bundle`: what a starter learns of the other components
pending_requests     key-value requests of starters that the daemon has not answered
store                claims on disk; `committed` is the committed view, the source of all reports
"""
