"""Koala: a co-allocating scheduler for jobs that must start on several clusters at once.

    from koala import Client, Component, Job

The rest of the Python interface is in `koala.client`, `koala.lab` and `koala.errors`.

Rooms, from the ground up; each knows only those below:

errors            the exceptions
job               for programs of malleable jobs, also where nothing else of Koala is installed
common            foundations that daemon, agents and clients share
core              the scheduler as a pure state machine
queue_model       the queue of a site, for emulated sites and simulations
policies          decide for the core; those of other packages are guarded
job_descriptions  YAML, RSL, JSON and batch scripts
views             the core's state for people: documents, explanations, accounts
client            the Python client
daemon            the process around the core; agents are in `koala_agent`
cli, web          the command line; the web page
local             commands that run or set up parts of Koala on this machine
lab               all that is research: simulated time, experiments, papers
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from koala.client import AsyncClient, Client, Component, Job, JobHandle

__all__ = ["AsyncClient", "Client", "Component", "Job", "JobHandle"]


def __getattr__(name: str) -> object:
    """Import the public classes when they are first used; most modules of Koala need none."""
    if name == "__version__":
        from koala.common.runtime.software import software_version  # noqa: PLC0415 - slow

        return software_version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from koala import client  # noqa: PLC0415 - the point of this function

    return getattr(client, name)
