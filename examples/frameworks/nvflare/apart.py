"""Run a server or a client of NVFlare as a component of a job, at sites that need no route.

The clients dial the server at its port FLARE. The startup kits are made before, for the address at
which all others reach the first component through the grid; each site needs its own kit alone.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from federation import LIMIT_S, provision, run_job, running
from rendezvous import Rendezvous

HOST, PORT = "127.77.0.1", 8002
OVER = "nvflare/over"
"""The name in the exchange that tells that the job is over."""


def main() -> None:
    """Run the part that the description asks for."""
    options = argparse.ArgumentParser(description=__doc__)
    parts = options.add_subparsers(dest="part", required=True)
    kits = parts.add_parser("kits", help="make them, and print their folder")
    kits.add_argument("folder", type=Path)
    kits.add_argument("names", nargs="+", help="of the clients")
    server = parts.add_parser("server", help="which also submits the job")
    server.add_argument("kits", type=Path)
    server.add_argument("--clients", type=int, required=True)
    client = parts.add_parser("client", help="until the job is over")
    client.add_argument("kit", type=Path)
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # ends all parts
    if given.part == "kits":
        print(provision(given.folder, given.names, HOST, (PORT, PORT)))
        return
    world = Rendezvous.from_environment("nvflare")
    if given.part == "client":
        with running(given.kit):
            world.exchange.get(OVER, wait_s=LIMIT_S)
        return
    with running(given.kits / "server1"), tempfile.TemporaryDirectory() as folder:
        run_job(given.kits, Path(folder), given.clients, rounds=4)
    world.exchange.put(OVER, "yes")


if __name__ == "__main__":
    main()
