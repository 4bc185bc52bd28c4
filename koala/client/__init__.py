"""The Python client of the daemon: the verbs of the command line as coroutines.

`Client` is the public interface. `channel` opens the connection and explains why none could be
opened; `resumable_stream` continues a stream after the daemon restarts.
"""

from koala.client.client import Client, Submission, Submitted

__all__ = ["Client", "Submission", "Submitted"]
