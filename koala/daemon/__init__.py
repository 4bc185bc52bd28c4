"""The daemon: one asyncio process around the core.

main              the process: signals, log, exit status
config            the configuration, parsed and validated once
assembly          builds the parts from it; `lifecycle` starts and ends them
listeners         the ports, with their TLS and authentication (`auth`)
loop              the event loop, which alone owns the scheduler
storage           the journal: events are durable before anything that follows from them leaves
state             the state directory: first start, recovery, backup
agents            the links of the agents: sessions, reports, key-value store
clients           the service for clients; `quotas` limits what one user may use
files             relay, spool and uploads
metrics, traces   what is counted and told of durable batches; `notifications` of ends of jobs

Nothing here decides about jobs. Absent on purpose: file bytes (they go from site to site, or
through the relay, a process of its own), and any state that a replay of the journal would not give,
except what agents report again.
"""
