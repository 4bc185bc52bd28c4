"""Rules for every command: exit statuses, streams, help, completion, imports."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from koala.cli.main import COMMANDS
from tests.cli.command import LIMIT_S, environment, koala, koala_here

QUERIES = (
    ("list",),
    ("show", "j1"),
    ("why", "j1"),
    ("timeline", "j1"),
    ("wait", "j1"),
    ("cancel", "j1"),
    ("logs", "j1"),
    ("watch",),
    ("sites",),
    ("sites", "lost", "delft"),
    ("drain", "delft"),
    ("resume", "delft"),
    ("files",),
    ("files", "where", "x"),
    ("files", "remove", "x"),
    ("metrics",),
    ("report",),
)
NOBODY = "127.0.0.1:1"


def test_help_lists_every_command_and_nothing_is_needed_for_it() -> None:
    run = koala("--help", COLUMNS="80")
    assert run.returncode == 0
    lines = run.stdout.splitlines()
    assert " ".join(line[16:].split("  ")[0] for line in lines[1:]).split() == COMMANDS
    assert len(lines) <= 24
    assert all(len(line) <= 80 and not line.endswith("...") for line in lines)
    assert run.stderr == ""


def test_the_version_is_one_line() -> None:
    run = koala_here("--version")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("koala ")
    assert run.stdout.count("\n") == 1


@pytest.mark.parametrize(
    "words", [(), ("--debug",), ("no-such",), ("list", "--no-such"), ("show",), ("list", "x")]
)
def test_wrong_usage_exits_with_2_and_says_so_on_standard_error(words: tuple[str, ...]) -> None:
    run = koala_here(*words)
    assert run.returncode == 2
    assert run.stdout == ""
    assert "Usage: koala" in run.stderr


def test_an_unreachable_daemon_exits_with_3_and_names_its_address() -> None:
    """One process for all queries, since starting them takes most of the time."""
    code = (
        "import json, sys\n"
        "from koala.cli.main import main\n"
        "sys.exit([main(words) for words in json.loads(sys.argv[1])] != [3] * int(sys.argv[2]))"
    )
    calls = [[*words, "--address", NOBODY] for words in QUERIES]
    run = subprocess.run(
        [sys.executable, "-c", code, json.dumps(calls), str(len(calls))],
        env=environment(),
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    said = run.stderr.decode()
    assert (run.returncode, run.stdout) == (0, b""), said
    assert said.count(f"no daemon answers at {NOBODY} ") == len(calls)  # others may be named, too
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("submit", "/no/such/file.rsl"), "/no/such/file.rsl"),
        (("submit", "/"), "directory"),
        (("submit", "-", "-D", "NAME"), "-D 'NAME'"),
        (("submit", "-", "--key", ""), "--key '': the key is empty"),
        (("submit", "-", "--key", " "), "--key ' ': the key is empty"),
        (("submit", "-", "-D", "=x"), "NAME=VALUE"),
        (("submit", "-", "-D", "a=1", "-D", "a=2"), "given twice"),
        (("site", "add", "delft", "--ttl", "0"), "--ttl '0' (expected a time that is not 0"),
        (("list", "--phase", "Sleeping"), "Placing"),
        (("list", "--address", "127.0.0.1:99999"), "with a port of 1 to 65535"),
        (("logs", "j1", "-c", ""), "--component '' (expected an index or a label"),
        (("logs", "j1", "--stream", "x"), "stdout, stderr, both"),
        (("files", "remove"), "Missing argument"),
        (
            ("files", "add", "/no/such"),
            "/no/such does not exist, or is special (expected a file or a folder",
        ),
        (("rsl", "/no/such"), "No such file"),
        (("up", "/no/such.toml"), "/no/such.toml"),
        (("daemon", "/no/such.toml"), "/no/such.toml"),
    ],
)
def test_a_wrong_word_exits_with_2_and_is_named(words: tuple[str, ...], named: str) -> None:
    run = koala_here(*words)
    assert (run.returncode, run.stdout) == (2, "")
    assert named in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("--version 0<&- 1>&- 2>&-", 0),
        (f"list --address {NOBODY} 2>&-", 3),
        ("rsl - <&-", 2),
        ("rsl /no/such 2>/dev/full", 2),
        ("--version >/dev/full", 1),
    ],
)
def test_the_exit_status_is_true_whatever_became_of_the_standard_streams(
    words: str, status: int
) -> None:
    run = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m koala.cli {words}', sys.executable],
        env=environment(),
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    said = (run.stdout + run.stderr).decode()
    assert run.returncode == status, said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "command", "status", "said"),
    [
        (("list", "--phase", "x"), "koala list", 2, "--phase x (expected"),
        (("list", "--last", "x"), "koala list", 2, "expected a whole number)"),
        (("resize", "j1", "9" * 20), "koala resize", 2, "expected 2147483647 at most)"),
        (("site", "add", "a", "--ttl", "0"), "koala site add", 2, "expected a time"),
        (("sites", "--address", NOBODY), "koala sites", 3, NOBODY),
        (
            ("simulate", "sq", "--scheme", "x"),
            "koala simulate sq",
            2,
            "expected one of QoS, free",
        ),
        (("admin", "authority", "show", "/no"), "koala admin authority show", 2, "/no"),
    ],
)
def test_an_error_names_its_command_and_is_a_document_with_json(
    words: tuple[str, ...], command: str, status: int, said: str
) -> None:
    run = koala_here(*words, "--json")
    assert (run.returncode, run.stdout) == (status, "")
    document = json.loads(run.stderr)
    assert document["version"] == 1
    assert said in document["error"].pop("text")
    assert document["error"] == {"command": command, "status": status}
    if "--last" not in words:
        assert koala_here(*words).stderr.startswith(f"{command}: ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    script = koala(_KOALA_COMPLETE=f"{shell}_source")
    assert script.returncode == 0, script.stderr
    assert f"_KOALA_COMPLETE={shell}_complete" in script.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("koala ti", ["timeline"]),
        ("koala site re", ["revoke", "resume"]),
        ("koala list --phase fi", ["Finished"]),
        ("koala simulate koala --placement c", ["CF", "CM", "communication"]),
        ("koala reproduce d", ["deadlines"]),
        ("koala show j", []),
    ],
)
def test_completion_of_a_word_offers_what_fits(words: str, offered: list[str]) -> None:
    """Nobody answers at the address, so no job is offered, and nothing is said of it."""
    run = koala(
        _KOALA_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(words.count(" ")),
        HOME="/nonexistent",
        KOALA_ADDRESS=NOBODY,
    )
    assert (run.stdout.split(), run.stderr) == ([f"plain,{one}" for one in offered], "")


def modules_after(code: str) -> set[str]:
    """List the modules that a fresh process imports when it runs this."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys, json; print(json.dumps(list(sys.modules)))"],
        env=environment(),
        capture_output=True,
        timeout=LIMIT_S,
        check=True,
    )
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_help_imports_nothing_heavy() -> None:
    loaded = modules_after("from koala.cli.main import main; main(['--help'])")
    heavy = {
        "grpc",
        "rich",
        "structlog",
        "msgspec",
        "psutil",
        "asyncio",
        "koala.job_descriptions",
        "pydantic",
    }
    assert heavy & loaded == set()


@pytest.mark.parametrize(
    ("words", "own_max"), [(["list"], 66), (["submit", "/dev/null"], 47)], ids=["list", "submit"]
)
def test_a_query_imports_only_what_it_needs(words: list[str], own_max: int) -> None:
    code = f"from koala.cli.main import main; main([*{words}, '--address', '{NOBODY}'])"
    loaded = modules_after(code)
    heavy = {
        "rich",
        "structlog",
        "psutil",
        "koala.job_descriptions",
        "koala.core",
        "pydantic",
        *(("msgspec",) if words[0] == "submit" else ()),  # its answer is no record
    }
    assert heavy & loaded == set()
    assert len([name for name in loaded if name.startswith("koala")]) <= own_max
    assert "koala_agent" not in loaded
    assert "koala.client.connection" in loaded


def test_the_nearest_command_is_named_when_one_is_mistyped() -> None:
    for words, near in ((("sumbit", "job.yaml"), "submit"), (("site", "drian", "delft"), "drain")):
        run = koala_here(*words)
        assert run.returncode == 2
        assert f"; did you mean {near}?" in run.stderr
    assert "did you mean" not in koala_here("xyzzy").stderr
