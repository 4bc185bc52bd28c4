"""Start a part of a MUSCLE3 simulation as a component of a job: the manager, or a model.

The manager starts the models of its own site, and waits for those that other components start. It
listens at its port MANAGER. Where others reach that goes through the exchange of the job, once it
listens.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rendezvous import Rendezvous

WAIT_S = 240.0
"""Longest wait for the manager, in seconds."""
LOCATION = "muscle3/manager"
"""The name in the exchange that tells where the manager is."""


def manage(world: Rendezvous, configuration: Path, folder: Path) -> int:
    """Run the manager, publish its location, and print what the models of this site wrote."""
    scripts = Path(sys.executable).parent
    words = [str(scripts / "muscle_manager"), "--start-all", "--run-dir", str(folder)]
    variables = {
        "MODELS": str(configuration.parent),
        "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    manager = subprocess.Popen(
        [*words, str(configuration)], env=os.environ | variables, stdout=subprocess.PIPE, text=True
    )
    assert manager.stdout is not None
    location = manager.stdout.readline().strip()
    if location.endswith(f":{os.environ['KOALA_PORT_MANAGER']}"):
        world.exchange.put(LOCATION, f"tcp:{os.environ['KOALA_CONTACT_MANAGER']}")
    else:
        print(f"the manager is at {location} (expected its port 9000)", file=sys.stderr)
        manager.terminate()
    said, _ = manager.communicate()
    for path in sorted(folder.glob("instances/*/std*.txt")):
        print(path.read_text(encoding="utf-8"), end="")
    print(said, file=sys.stderr)
    return manager.returncode


def run_model(world: Rendezvous, instance: str, program: list[str]) -> int:
    """Run a model of the simulation as soon as the manager is there."""
    location = world.exchange.get(LOCATION, wait_s=WAIT_S)
    variables = {"MUSCLE_MANAGER": location, "MUSCLE_INSTANCE": instance}
    return subprocess.run(
        [sys.executable, *program], env=os.environ | variables, check=False
    ).returncode


def main() -> None:
    """Run the part that the description asks for."""
    options = argparse.ArgumentParser(description=__doc__)
    parts = options.add_subparsers(dest="part", required=True)
    manager = parts.add_parser("manager", help="with the models of its site")
    manager.add_argument("configuration", type=Path, help="a file in yMMSL")
    model = parts.add_parser("model", help="that the configuration calls manual")
    model.add_argument("instance", help="its name in the configuration")
    model.add_argument("program", nargs="+", help="a Python program, and its arguments")
    given = options.parse_args()
    world = Rendezvous.from_environment("muscle3")
    if given.part == "model":
        raise SystemExit(run_model(world, given.instance, given.program))
    with tempfile.TemporaryDirectory() as folder:
        status = manage(world, given.configuration, Path(folder))
    raise SystemExit(status)


if __name__ == "__main__":
    main()
