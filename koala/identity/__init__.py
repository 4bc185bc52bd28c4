"""Identities of sites and users: certificates, tokens and the files that hold them.

`tls` makes gRPC credentials from certificates, `private_files` reads and writes secrets that only
their owner may read, `credentials` finds the credentials of a user. Who may do what is decided by
the daemon (`koala.daemon.auth`).
"""
