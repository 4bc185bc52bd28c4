"""Variables of the environment that gRPC reads when it is imported.

A main program sets them before; nothing else does, so that importing a package of Koala changes
nothing for the process.
"""

from __future__ import annotations

import os

FORK_SUPPORT = "GRPC_ENABLE_FORK_SUPPORT"
VERBOSITY = "GRPC_VERBOSITY"


def set_grpc_variables() -> None:
    """Set what nobody else has set, for a process that serves.

    With fork support gRPC restarts its threads around each fork; where the account's thread limit
    is reached, a failed start of a process would cost the link. A log file keeps gRPC's lines about
    failed handshakes; on a terminal they do not help a person.
    """
    os.environ.setdefault(FORK_SUPPORT, "0")
    if os.isatty(2):
        os.environ.setdefault(VERBOSITY, "NONE")
