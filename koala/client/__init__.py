"""The Python client of the daemon: the verbs of the command line as coroutines.

`Client` is the public interface, with `Job` and `Component` to describe jobs. `channel` opens the
connection and explains why none could be opened; `resumable_stream` continues a stream after the
daemon restarts.
"""

from koala.client.client import Client, Submission, Submitted
from koala.client.description import Component, Job

__all__ = ["Client", "Component", "Job", "Submission", "Submitted"]
