"""Large buffers that were freed leave no memory behind in their threads."""

import subprocess
import sys

MB = 1_000_000
PROGRAM = """
import threading
from pathlib import Path
from koala.daemon.main import map_large_buffers

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def use():
    for _ in range(3):  # the first one is what raises the size from which the others stay
        text = bytearray(24_000_000)

map_large_buffers()
before = resident()
kept = threading.Event()
threads = [threading.Thread(target=lambda: (use(), done.wait(), kept.wait())) for _ in range(3)]
done = threading.Barrier(4)
for thread in threads:
    thread.start()
done.wait()
print(resident() - before)
kept.set()
"""


def test_a_thread_that_is_done_with_large_buffers_keeps_none_of_their_memory() -> None:
    """Three threads, each of which would keep one: the snapshots, the journal, and the loop."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 12 * MB
