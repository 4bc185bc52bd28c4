"""The daemon's side of the link to agents.

registry             the agents that are connected: sessions, inventories, reports
connections          a stream and its session each; the newest of each site
session              the protocol of one session, as a pure state machine
streams              the gRPC streams that carry sessions
reports              an agent's messages as events of the core
starter_requests     answer lease renewals and key-value requests of starters
kvstore              the values that components of an attempt exchange
duplicate_agents     back-off between two agents that claim one site
replica_reports      reconciliation of reported files with the replica catalogue
site_facts           the facts of a site as the core has them
progress_reports     progress reports, collected until a cycle is complete
"""
