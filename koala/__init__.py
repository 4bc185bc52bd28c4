"""Koala: a co-allocating scheduler for jobs that must start on several clusters at once.

    from koala import Client, Component, Job

The rest of the Python interface is in `koala.client` and `koala.errors`.
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
