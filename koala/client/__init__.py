"""The Python client of the daemon: the verbs of the command line as methods.

`Client` waits for each answer; `AsyncClient` has the same methods as coroutines. `Job` and
`Component` describe jobs, `JobHandle` follows a submitted one, and `koala.client.records` has the
types of results.

client               `AsyncClient` and its handle; `grid_calls`, `file_calls` have more methods
sync                 `Client`; `background` runs the coroutines in a thread
description          `Job` and `Component`
submission           one of several submissions; `batched_submission` sends them

records              types of results
connection           calls over a `channel`; `resumable_stream` goes on after a cut
answers              the daemon's JSON as records
grid_model           the grid as it is now, fed by a watch, for pages and `koala top`
staging, uploads     files on their way to the daemon; `fetching`: output files on their way back
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koala.client.client import AsyncClient, AsyncJobHandle
    from koala.client.description import Component, Job
    from koala.client.submission import Submission
    from koala.client.sync import Client, JobHandle
    from koala.views.records.phases import TERMINAL_PHASES

__all__ = [
    "TERMINAL_PHASES",
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "Component",
    "Job",
    "JobHandle",
    "Submission",
]
_MODULES = {
    "TERMINAL_PHASES": "koala.views.records.phases",
    "AsyncClient": "koala.client.client",
    "AsyncJobHandle": "koala.client.client",
    "Client": "koala.client.sync",
    "Component": "koala.client.description",
    "Job": "koala.client.description",
    "JobHandle": "koala.client.sync",
    "Submission": "koala.client.submission",
}


def __getattr__(name: str) -> object:
    """Import what is asked for: a command needs little of this package, and starts faster."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found
