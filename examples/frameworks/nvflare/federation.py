"""Run a small federation of NVFlare on this machine, whose job processes are jobs of Koala.

It makes startup kits with certificates, starts a server and a client for each site, has them run
one job, prints its result, and ends all. KOALA_ADDRESS names the daemon, as for `koala`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.tool.deploy.deploy_common import PASSTHROUGH_RESOURCE_MANAGER

HERE = Path(__file__).resolve().parent
SCRIPTS = Path(sys.executable).parent
"""The folder of NVFlare's commands."""
ADMIN = "admin@example.org"
LIMIT_S = 240
"""Longest time that the job may take, in seconds."""
END_S = 30
"""Time that server and clients have to end, in seconds."""


def provision(
    folder: Path, sites: Sequence[str], host: str = "localhost", ports: Sequence[int] = ()
) -> Path:
    """Make the startup kits of server, clients and administrator; return their folder."""
    ports = ports or free_ports(2)
    server = {"name": "server1", "type": "server", "org": "example", "default_host": host}
    project = {
        "api_version": 3,
        "name": "koala-example",
        "participants": [
            {**server, "fed_learn_port": ports[0], "admin_port": ports[1]},
            *({"name": site, "type": "client", "org": "example"} for site in sites),
            {"name": ADMIN, "type": "admin", "org": "example", "role": "project_admin"},
        ],
        "builders": [
            {"path": "nvflare.lighter.impl.workspace.WorkspaceBuilder"},
            {
                "path": "nvflare.lighter.impl.static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "scheme": "grpc"},
            },
            {"path": "nvflare.lighter.impl.cert.CertBuilder"},
            {"path": "nvflare.lighter.impl.signature.SignatureBuilder"},
        ],
    }
    path = folder / "project.yml"
    path.write_text(json.dumps(project), encoding="utf-8")  # JSON is YAML
    nvflare(folder, "provision", "--force", "-p", str(path), "-w", str(folder / "kits"))
    return folder / "kits" / "koala-example" / "prod_00"


def free_ports(count: int) -> list[int]:
    """Find ports that are free now."""
    found = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in found]
    for one in found:
        one.close()
    return ports


def use_koala(kit: Path) -> None:
    """Let a client start its job processes by Koala, which also counts processors and GPUs."""
    local = kit / "local"
    (local / "custom").mkdir()
    shutil.copy(HERE / "koala_launcher.py", local / "custom")
    resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    replaced = {
        "process_launcher": {
            "id": "koala_launcher",
            "path": "koala_launcher.KoalaJobLauncher",
            "args": {"wall_time": 5, "retry": 2},
        },
        "resource_manager": {"id": "resource_manager", "path": PASSTHROUGH_RESOURCE_MANAGER},
    }
    resources["components"] = [replaced.get(one["id"], one) for one in resources["components"]]
    (local / "resources.json").write_text(json.dumps(resources, indent=2), encoding="utf-8")


@contextmanager
def running(kit: Path) -> Iterator[None]:
    """Run the server or a client by the script of its startup kit; end it with the block."""
    path = os.pathsep.join([str(SCRIPTS), os.environ.get("PATH", os.defpath)])
    with (kit / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            ["bash", str(kit / "startup" / "sub_start.sh"), "--once"],
            env=os.environ | {"PATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run_job(kits: Path, folder: Path, sites: int, rounds: int) -> None:
    """Submit the job of line_fit.py as the administrator, and print what it learnt."""
    recipe = NumpyFedAvgRecipe(
        name="line-fit",
        model=[0.0, 0.0, 0.0],
        min_clients=sites,
        num_rounds=rounds,
        train_script=str(HERE / "line_fit.py"),
        key_metric="loss",
        key_metric_mode="min",
    )
    recipe.export(str(folder / "jobs"))
    admin = ("--startup-kit", str(kits / ADMIN))
    exported = str(folder / "jobs" / "line-fit")
    job = nvflare(folder, "job", "submit", "-j", exported, *admin)["job_id"]
    print(f"NVFlare has job {job}", flush=True)
    ended = nvflare(folder, "job", "wait", job, "--timeout", str(LIMIT_S), *admin)
    print(f"the job is {ended['status']}", flush=True)
    if ended["status"] != "FINISHED:COMPLETED":
        raise SystemExit("the job failed; the logs are in --folder")
    found = nvflare(folder, "job", "download", job, "-o", str(folder / "result"), *admin)
    print_result(Path(found["path"]) / "workspace")


def print_result(folder: Path) -> None:
    """Print which sites took part, the losses, and the weights."""
    lines = (folder / "metrics" / "round_metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rounds = [json.loads(line) for line in lines]
    sites = {", ".join(sorted(site["name"] for site in one["sites"])) for one in rounds}
    losses = [one["aggregated_metrics"][0]["value"] for one in rounds]
    weights = np.load(folder / "models" / "server.npy", allow_pickle=False)
    print(f"{len(rounds)} rounds with {' or '.join(sorted(sites))}")
    print(f"loss {losses[0]:.3f} in the first round, {losses[-1]:.5f} in the last one")
    print(f"weights {[round(float(weight), 1) for weight in weights]}")
    if losses[-1] >= losses[0]:
        raise SystemExit("the sites did not learn together")


def nvflare(home: Path, *words: str) -> dict[str, Any]:
    """Run a command of NVFlare, which keeps a configuration in `home`; return the data of its
    answer."""
    command = [str(SCRIPTS / "nvflare"), "--format", "json", "--connect-timeout", "60", *words]
    environment = os.environ | {"HOME": str(home)}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    if run.returncode:
        raise SystemExit(f"nvflare {' '.join(words)} failed: {run.stdout.decode()}")
    data: dict[str, Any] = json.loads(run.stdout)["data"]
    return data


def main() -> None:
    """Run the federation."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sites", nargs="+", default=["delft", "leiden"], help="of Koala")
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--folder", type=Path, help="keep kits and logs there")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # ends all parts
    with tempfile.TemporaryDirectory() as name:
        folder = given.folder or Path(name)
        kits = provision(folder, given.sites)
        with ExitStack() as federation:
            federation.enter_context(running(kits / "server1"))
            for site in given.sites:
                use_koala(kits / site)
                federation.enter_context(running(kits / site))
            run_job(kits, folder, len(given.sites), given.rounds)


if __name__ == "__main__":
    main()
