"""The agent: one process in front of the local resource manager of one site."""

import os

FORK_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"
VERBOSITY = "GRPC_VERBOSITY"
os.environ.setdefault(FORK_SUPPORT, "0")
# gRPC reads it at import. With fork support it restarts its threads around each fork; where the
# account's thread limit is reached, a failed start of a process would cost the link.
if os.isatty(2):
    os.environ.setdefault(VERBOSITY, "NONE")
# A log file keeps gRPC's lines about failed handshakes; on a terminal they do not help a person.
