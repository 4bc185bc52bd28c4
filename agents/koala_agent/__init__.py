"""The agent: one process in front of the local resource manager of one site."""

import os

FORK_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"
VERBOSITY = "GRPC_VERBOSITY"
os.environ.setdefault(FORK_SUPPORT, "0")
# gRPC reads it when it is imported. Else it ends its threads before each fork and makes them anew:
# where the account may have no more of them, starting a process in vain would cost the link.
os.environ.setdefault(VERBOSITY, "NONE")
# Else the core of gRPC writes lines of its own to standard error, which say nothing to who runs us.
