"""The daemon: one asyncio process around the core.

- `assembly` builds the parts from the configuration; `lifecycle` starts and ends them; `main` is
  the process around them.
- The event loop alone owns the scheduler.
- The registry holds the agents' links.
- The service answers clients.
- The journal makes events durable before anything that follows from them leaves.

Nothing here decides about jobs. Absent on purpose: file bytes (they go from site to site, or
through the relay, a process of its own), and any state that a replay of the journal would not give,
except what agents report again.
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # as in koala_agent
if os.isatty(2):
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # as in koala_agent, too
