"""Koala: a co-allocating scheduler for jobs that must start on several clusters at once.

    from koala import Client, Component, Job

The rest of the Python interface is in `koala.client` and `koala.errors`. The packages:

core        the scheduler as a pure state machine; `policies` decide for it, `views` explain it
daemon      the process around the core; agents are in `koala_agent`
protocol    messages between daemon, agent and starter; `wire` carries them over gRPC
files       replicas and copies of files
identity    certificates, tokens, and TLS
rsl         descriptions of jobs
client      the Python client; `cli` is the command line, `web` the web page
metrics     what Prometheus reads
sim         simulated time; `workload` draws or reads jobs, `papers` reproduces experiments
lab         simulations from Python; `twin`: recorded jobs of clusters; `yardstick`: a benchmark
runtime     services of the operating system: clock, log, disk, SQLite, settings
conformance
            checks a policy of another package before it is used
grid_file   one TOML file for a whole grid on this machine
errors      the exceptions
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koala.client import AsyncClient, Client, Component, Job, JobHandle

__all__ = ["AsyncClient", "Client", "Component", "Job", "JobHandle"]


def __getattr__(name: str) -> object:
    """Import the public classes when they are first used; most modules of Koala need none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from koala import client  # noqa: PLC0415 - the point of this function

    return getattr(client, name)
