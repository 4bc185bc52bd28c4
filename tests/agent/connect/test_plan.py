"""Plan of `koala site connect`: needs, the agent's file, and ports to be led."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala_agent.connect.plan import (
    ConnectRequest,
    configuration,
    file_text,
    needs,
    settings_of,
    tunnel_ports,
)
from koala_agent.connect.survey import Survey
from koala_agent.lrm.batch_system import Setting

HERE = ConnectRequest(
    site="atlas",
    host="login1",
    is_there=False,
    daemon="127.0.0.1:7740",
    state_dir="~/s",
    user="ann",
)
THERE = replace(HERE, is_there=True)
SLURM = Survey(
    name="login1.example.org",
    home="/home/ann",
    path="/opt/slurm/bin:/usr/bin",
    processors=16,
    commands={"sbatch": "/opt/slurm/bin/sbatch", "timeout": "/usr/bin/timeout"},
    pythons=(((3, 9), "/usr/bin/python3"),),
    variables={"SLURM_CONF": "/etc/slurm.conf", "SGE_CELL": "red"},
)
GRID_ENGINE = replace(
    SLURM,
    commands={"qsub": "/sge/qsub", "qconf": "/sge/qconf", "timeout": "/usr/bin/timeout"},
    answers={"gridengine": {"environment": ("mpi", "smp")}},
)


def told(survey: Survey, request: ConnectRequest) -> dict[str, tuple[bool, str]]:
    return {need.name: (need.is_met, need.text) for need in needs(survey, request)}


def test_an_old_interpreter_is_enough_for_programs_and_not_for_an_agent() -> None:
    assert told(SLURM, HERE)["interpreter"] == (True, "/usr/bin/python3")
    is_met, text = told(SLURM, THERE)["interpreter"]
    assert not is_met
    assert "Python 3.11 or newer is missing there; uv would fetch one" in text
    with_uv = replace(SLURM, commands={**SLURM.commands, "uv": "/home/ann/bin/uv"})
    assert told(with_uv, THERE)["interpreter"] == (True, "none from Python 3.11 on: uv fetches one")
    new = replace(SLURM, pythons=(((3, 12), "/opt/python3.12"), *SLURM.pythons))
    assert told(new, THERE)["interpreter"] == (True, "/opt/python3.12")
    assert not told(replace(SLURM, pythons=()), HERE)["interpreter"][0]


def test_commands_over_ssh_need_a_time_limit_there() -> None:
    without = replace(SLURM, commands={"sbatch": "/opt/slurm/bin/sbatch"})
    assert "commands" not in told(SLURM, HERE)
    assert not told(without, HERE)["commands"][0]
    assert "commands" not in told(without, THERE)


def test_a_parallel_environment_is_chosen_where_there_are_several() -> None:
    assert told(GRID_ENGINE, HERE)["settings"] == (
        False,
        "parallel_environment: choose one that `qconf -spl` lists: mpi, smp; give --set"
        " parallel_environment=VALUE",
    )
    chosen = replace(HERE, wishes={"parallel_environment": "smp"})
    is_met, text = told(GRID_ENGINE, chosen)["settings"]
    assert (is_met, text) == (True, "parallel_environment = smp (as you wish)")
    assert not told(GRID_ENGINE, replace(HERE, wishes={"parallel_environment": "x"}))["settings"][0]
    single = replace(GRID_ENGINE, answers={"gridengine": {"environment": ("mpi",)}})
    assert single.system is not None
    settings = settings_of(single, single.system, {})
    text = file_text(configuration(single, HERE, settings), settings)
    assert 'parallel_environment = "mpi"  # the only one that `qconf -spl` lists\n' in text


@pytest.mark.parametrize(
    ("key", "text", "is_met", "said"),
    [
        ("poll_s", "2.5", True, "poll_s = 2.5 (as you wish)"),
        ("partition", "7", True, "partition = 7 (as you wish)"),
        ("poll_s", "soon", False, "poll_s = 'soon' (expected float, got str)"),
        ("poll_s", "0", False, "poll_s = '0' (expected float >= 0.05)"),
        ("options", "--x", False, "options = '--x' (expected array, got str)"),
        ("kind", "oar", False, "kind means nothing with Slurm (expected one of account, "),
    ],
)
def test_a_wish_has_the_form_of_its_key(key: str, text: str, said: str, *, is_met: bool) -> None:
    found = told(SLURM, replace(HERE, wishes={key: text}))["settings"]
    assert (found[0], found[1].startswith(said)) == (is_met, True), found


def test_the_file_of_an_agent_here_leads_every_command_over_ssh() -> None:
    request = replace(HERE, options=("-F", "/x"), wishes={"partition": "long"})
    assert SLURM.system is not None
    wished = settings_of(SLURM, SLURM.system, request.wishes)
    size = Setting(key="site.processors", value=8, reason="all")
    tree = configuration(SLURM, request, (size, *wished))
    assert tree["transport"] == {"kind": "ssh", "host": "login1", "options": ["-F", "/x"]}
    assert tree["starter"] == {"python": "/usr/bin/python3"}
    assert tree["lrm"] == {
        "kind": "slurm",
        "environment": {"SLURM_CONF": "/etc/slurm.conf", "PATH": "/opt/slurm/bin:/usr/bin"},
        "partition": "long",
    }
    assert tree["site"] == {"processors": 8, "address": "login1.example.org", "grace_s": 60.0}


@pytest.mark.parametrize(
    ("daemon", "relay", "ports"),
    [
        ("127.0.0.1:7740", "127.0.0.1:7742", (7740, 7741, 7742)),
        ("localhost:7740", "", (7740, 7741)),
        ("grid.example.org:7740", "grid.example.org:7742", ()),
        ("grid.example.org:7740", "127.0.0.1:7742", (7742,)),
    ],
)
def test_the_ports_of_a_daemon_for_its_own_machine_are_led(
    daemon: str, relay: str, ports: tuple[int, ...]
) -> None:
    assert tunnel_ports(daemon, relay, 7741) == ports
