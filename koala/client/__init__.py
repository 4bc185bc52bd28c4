"""The Python client of the daemon: the verbs of the command line as methods.

`Client` waits for each answer; `AsyncClient` has the same methods as coroutines. `Job` and
`Component` describe jobs, `JobHandle` follows a submitted one, and `koala.client.records` has the
types of results.
"""

from koala.client.client import AsyncClient
from koala.client.description import Component, Job
from koala.client.job_handle import AsyncJobHandle
from koala.client.records import ENDS
from koala.client.submission import Submission
from koala.client.sync import Client, JobHandle

__all__ = [
    "ENDS",
    "AsyncClient",
    "AsyncJobHandle",
    "Client",
    "Component",
    "Job",
    "JobHandle",
    "Submission",
]
