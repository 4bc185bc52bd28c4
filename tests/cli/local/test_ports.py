"""A port that is taken is told in one line of ours, and the core of gRPC writes none."""

import os
import pty
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.common.wire.listen_ports import cannot_listen, check_free
from koala.errors import ConfigError
from koala_agent.environments import of_programs
from koala_agent.starter_link.listener import StarterListener
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


async def test_a_port_of_the_starters_that_is_taken_is_told(taken: str) -> None:
    starters = StarterListener(emit=lambda _: None, secret=lambda _: None)
    host, _, port = taken.rpartition(":")
    with pytest.raises(ConfigError, match=f"starter.port = '{taken}'.* port {port} is taken"):
        await starters.listen(host, int(port), is_fixed=True)


def test_where_nobody_can_listen_the_reason_is_the_systems() -> None:
    with pytest.raises(ConfigError, match="Cannot assign requested address"):
        check_free("daemon.listen", "192.0.2.1:0")
    with pytest.raises(ConfigError, match=r"nosuch\.invalid: "):
        check_free("daemon.listen", "nosuch.invalid:0")
    check_free("daemon.listen", "127.0.0.1:0")
    assert "try again" in str(cannot_listen("daemon.listen", "127.0.0.1:0"))


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


def test_the_core_of_grpc_writes_to_terminals_when_it_is_told_to(taken: str) -> None:
    assert "add_port.cc" in fails("service", taken, on_terminal=True, GRPC_VERBOSITY="ERROR")


def test_a_command_keeps_it_quiet_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    """A command writes only its own messages, wherever its standard error leads."""
    program = tmp_path / "command.py"
    program.write_text(
        "import os, sys\nfrom koala.cli.main import main\n"
        "sys.argv[1:] = ['list', '--address', '127.0.0.1:1']\n"
        "os._exit = lambda status: print(os.environ['GRPC_VERBOSITY'])\nmain()\n"
    )
    for told, found in (({}, "NONE"), ({"GRPC_VERBOSITY": "INFO"}, "INFO")):
        variables = {k: v for k, v in environment().items() if k != "GRPC_VERBOSITY"} | told
        run = subprocess.run(
            [sys.executable, program, "list"],
            env=variables,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert run.stdout.split() == [found], run.stderr


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


def test_who_uses_the_python_client_says_what_grpc_writes(taken: str) -> None:
    assert "add_port.cc" in fails("koala.client", taken, on_terminal=True)


def test_programs_of_an_agent_do_not_get_its_settings_of_grpc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    assert "GRPC_VERBOSITY" not in of_programs()
