"""The daemon's side of the link to agents.

registry             the agents that are connected, and their sessions
session              what to believe of an agent and what to answer: a pure machine
streams              the gRPC streams that carry sessions
reports              an agent's messages as events of the core
requests             lease renewals and key-value requests of starters
kvstore              the values that components of an attempt exchange
duplicate_agents     back-off between two agents that claim one site
replica_reports      which reported copies of files count
progress_reports     progress, gathered until every component told the same cycle
"""
