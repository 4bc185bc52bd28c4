"""Real batch systems: claims as batch jobs.

batch_manager     submission and ends of claims; the same for all batch systems
batch_settings    its settings
manager_part      what its parts share
listings          the batch system's listings, compared with the claims
cancellations     ends of jobs, and of those that are not wanted until they are gone
figures           what is idle, who waits, and when waiting claims may start
repeated_probe    probes gates again when the configuration is another one
claim_tracking    the claims between two polls, and what a listing says of them
gatekeeper        gates waiting claims and opens them, and repairs what a listing has otherwise
bookings          books processors for claims with a known start, and gives them back
guarded_dialect   makes a dialect's mistakes errors of its site, which end no agent
limits            what it allows one job, and pauses after its refusals
native            options that a job passes on to the batch system
account_breaker   a circuit breaker for accounts whose commands fail

Every other module or folder is a dialect with its record, which an entry point names. To add one:
docs/development/add-a-batch-system.md.
"""
