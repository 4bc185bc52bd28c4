"""The agent: one process in front of the local resource manager of one site."""

import os

FORK_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"
VERBOSITY = "GRPC_VERBOSITY"
os.environ.setdefault(FORK_SUPPORT, "0")
# gRPC reads it when it is imported. Else it ends its threads before each fork and makes them anew:
# where the account may have no more of them, starting a process in vain would cost the link.
if os.isatty(2):
    os.environ.setdefault(VERBOSITY, "NONE")
# A log is to have what the core of gRPC says of handshakes that failed; on a terminal its lines say
# nothing to a person.
