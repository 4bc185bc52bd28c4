"""A port that is taken is told in one line of ours, and the core of gRPC writes none."""

import os
import pty
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala_agent.environments import of_programs
from tests.cli.command import LIMIT_S, environment, koala

GRID = """
[daemon]
{daemon}
{more}
[sites.delft]
site = {{ processors = 4 }}
{site}
"""
FAILS = """
import importlib, sys
if sys.argv[1] == "service":
    from koala.common.wire.grpc_variables import set_grpc_variables
    set_grpc_variables()
else:
    importlib.import_module(sys.argv[1])
import asyncio, grpc
async def listen():
    try:
        grpc.aio.server(options=[("grpc.so_reuseport", 0)]).add_insecure_port(sys.argv[2])
    except RuntimeError:
        pass
asyncio.run(listen())
"""


@pytest.fixture
def taken() -> Iterator[str]:
    """An address at which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("key", "daemon", "more", "site"),
    [
        ("daemon.listen", "listen = '{}'", "", ""),
        ("daemon.agents", "listen = '127.0.0.1:0'\nagents = '{}'", "", ""),
        ("relay.listen", "listen = '127.0.0.1:0'", "[relay]\nlisten = '{}'", ""),
        ("sites.delft.files.serve", "listen = '127.0.0.1:0'", "", "files = {{ serve = '{}' }}"),
    ],
)
def test_a_grid_whose_port_is_taken_says_so_in_one_line_and_leaves_no_folder(
    tmp_path: Path, taken: str, key: str, daemon: str, more: str, site: str
) -> None:
    path = tmp_path / "grid.toml"
    site = site.replace("{{", "{").replace("}}", "}").replace("{}", taken)
    path.write_text(GRID.format(daemon=daemon.format(taken), more=more.format(taken), site=site))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    run = koala("up", str(path), TMPDIR=str(temporary))
    (said,) = run.stderr.splitlines()
    assert (run.returncode, run.stdout) == (2, "")
    assert f"{key} = '{taken}': cannot listen there: port {taken[10:]} is taken" in said
    assert ("--any-port" in said) == (key == "daemon.listen")
    assert list(temporary.iterdir()) == []


def fails(module: str, address: str, *, on_terminal: bool, **changes: str) -> str:
    """Return what a process with this module writes to standard error when gRPC cannot listen."""
    variables = {k: v for k, v in environment().items() if k != "GRPC_VERBOSITY"} | changes
    ours, theirs = pty.openpty() if on_terminal else os.pipe()
    subprocess.run(
        [sys.executable, "-c", FAILS, module, address],
        env=variables,
        stderr=theirs,
        timeout=LIMIT_S,
        check=True,
    )
    os.write(theirs, b"end")
    found = b""
    while not found.endswith(b"end"):
        found += os.read(ours, 65_536)
    os.close(ours)
    os.close(theirs)
    return found.removesuffix(b"end").decode()


@pytest.mark.parametrize("on_terminal", [True, False])
def test_the_core_of_grpc_writes_to_logs_but_not_to_terminals(
    taken: str, *, on_terminal: bool
) -> None:
    said = fails("service", taken, on_terminal=on_terminal)
    assert (said == "") if on_terminal else ("add_port.cc" in said)


IMPORTS = """
import os, sys
before = dict(os.environ)
import koala.cli.main, koala.daemon.main, koala.daemon.files.relay
import koala.lab.grids, koala_agent.main
print({name: text for name, text in os.environ.items() if before.get(name) != text})
"""


def test_the_import_of_a_package_sets_no_variable() -> None:
    variables = {k: v for k, v in environment().items() if not k.startswith("GRPC_")}
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS],
        env=variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert run.stdout == "{}\n"


def test_programs_of_an_agent_do_not_get_its_settings_of_grpc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    assert "GRPC_VERBOSITY" not in of_programs()
