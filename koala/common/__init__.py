"""Foundations that daemon, agents and clients share.

runtime     services of the operating system: clock, log, disk, SQLite, settings
identity    certificates, tokens, and TLS
wire        gRPC: messages, connections, limits
protocol    the vocabulary of the link between daemon, agent and starter
files       replicas and copies of files
metrics     numbers that Prometheus reads

Nothing here knows of jobs, of the daemon or of an agent.
"""
