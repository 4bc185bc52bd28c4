"""Identities of sites and users: certificates, tokens and the files that hold them.

`tls` makes gRPC credentials from certificates. `private_files` reads and writes secrets that only
their owner may read. `credentials` finds the credentials of a user. Authorization is the daemon's
(`koala.daemon.auth`).
"""
