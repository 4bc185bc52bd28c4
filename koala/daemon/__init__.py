"""The daemon: one asyncio process around the core.

The pump alone owns the scheduler; the roster holds the agents' links, the service answers clients,
the journal makes events durable before anything of them leaves. Nothing here decides about jobs.
Absent on purpose: file bytes (they go from site to site, or through the relay, a process of its
own) and any state that replaying the journal would not give, but for what agents tell anew.
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # as in koala_agent
if os.isatty(2):
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # as in koala_agent, too
