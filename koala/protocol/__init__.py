"""The vocabulary of the link between daemon, agent and starter.

Messages, limits, versions and shared formulas are declared here once and used at both ends. The
encoding, generated from `proto/`, is `koala.wire.v1`.
"""
