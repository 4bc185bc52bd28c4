"""The commands about who may dial and call, as a site's and a user's owner types them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from koala.common.identity.private_files import write_private
from tests.cli.command import LIMIT_S, environment, koala_here
from tests.cli.grids import Up, up
from tests.harness.forked import write_launcher

pytestmark = pytest.mark.live

ONE_SITE = "[sites.delft.site]\nprocessors = 4\n"
HELLO = "&(executable=/bin/echo)(arguments=hello)(jobType=single)"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("up"), ONE_SITE) as running:  # for lists of words
        yield running


def shell(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run shell commands that call `koala-agent`, each call a process of its own."""
    program = folder / "bin" / "koala-agent"
    if not program.exists():
        program.parent.mkdir()
        write_launcher(program, "koala_agent.__main__")
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=environment(PATH=f"{program.parent}:{os.environ['PATH']}"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def agent_file(folder: Path, address: str, site: str = "leiden") -> None:
    (folder / f"{site}.toml").write_text(
        f'[agent]\nsite = "{site}"\ndaemon = "{address}"\nstate_dir = "agent"\n'
        "[site]\nprocessors = 2\n"
    )


def test_the_command_that_is_printed_lets_a_site_join(grid: Up, tmp_path: Path) -> None:
    agent_file(tmp_path, grid.address)
    without = shell(tmp_path, "koala-agent leiden.toml")
    assert without.returncode == 2
    assert "koala site add leiden" in without.stderr

    added = grid.koala("site", "add", "leiden", "--ttl", "2h", "--owner", "ann")
    assert added.returncode == 0, added.stderr
    assert "within 2h" in added.stderr
    assert added.stdout.startswith("koala-agent join leiden.toml <<'TOKEN'\nkoala-join|")
    joined = shell(tmp_path, added.stdout)
    assert joined.returncode == 0, joined.stderr
    assert "leiden has joined" in joined.stderr
    again = shell(tmp_path, added.stdout)
    assert again.returncode == 1
    assert "used before" in again.stderr
    assert "Traceback" not in again.stderr

    listed = json.loads(grid.koala("site", "list", "--json").stdout)["sites"]
    assert {row["site"]: row["state"] for row in listed}["leiden"] == "enrolled"
    assert "ann" in grid.koala("site", "list").stdout
    assert grid.koala("site", "revoke", "leiden").stdout.split() == ["leiden", "revoked"]
    refused = shell(tmp_path, "echo nonsense | koala-agent join leiden.toml")
    assert refused.returncode == 2
    assert "not a join token" in refused.stderr


def test_a_user_with_credentials_sees_own_jobs_only(grid: Up, tmp_path: Path) -> None:
    mine = grid.submit(HELLO)
    added = grid.koala("user", "add", "ann", "--expires", "90d")
    assert added.returncode == 0, added.stderr
    path = tmp_path / "ann.toml"
    write_private(path, added.stdout.encode())

    def koala(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KOALA_CREDENTIALS", str(path))
            return koala_here(*words, stdin=stdin.encode())

    submitted = koala("submit", "-", "--wait", stdin=HELLO)
    assert submitted.returncode == 0, submitted.stderr
    job = submitted.stdout.split()[0]
    assert koala("logs", job).stdout == "hello\n"
    for mine_only in ((), ("--mine",)):  # as the daemon knows her, whatever her account is called
        listed = json.loads(koala("list", "--json", *mine_only).stdout)["jobs"]
        assert [row["job"] for row in listed] == [job]
    for verb in ("show", "cancel", "logs", "why", "outputs"):
        refused = koala(verb, mine)
        assert refused.returncode == 1
        assert f"no job '{mine}'" in refused.stderr + refused.stdout
    refused = koala("drain", "delft")
    assert refused.returncode == 1
    assert "ann has the role user" in refused.stderr

    rows = json.loads(grid.koala("audit", "--json", "--last", "1000").stdout)["lines"]
    assert {"ChangeSite", "Submit"} <= {row["verb"] for row in rows if row["who"] == "ann"}
    words = ("--user", "ann", "--verb", "changesite", "--refused", "--since", "1h", "--last", "1")
    (row,) = json.loads(grid.koala("audit", "--json", *words).stdout)["lines"]
    assert (row["who"], row["verb"], row["object"]) == ("ann", "ChangeSite", "drain delft")
    assert row["outcome"].startswith("refused: ann has the role user")
    assert grid.koala("audit", "--since", "0s").stdout == ""
    assert grid.koala("user", "revoke", "ann").stdout.split() == ["ann", "revoked"]
    refused = koala("list")
    assert refused.returncode == 1
    assert "replaced or revoked" in refused.stderr
    assert {"ann"} <= {
        row["user"] for row in json.loads(grid.koala("user", "list", "--json").stdout)["users"]
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("site", "add", "a b"), "site 'a b' (expected letters"),
        (("site", "add", "a", "--ttl", "1y"), "--ttl '1y' (expected a number"),
        (("site", "add", "a", "--ttl", "99d"), "ttl = "),
        (
            ("user", "add", "x", "--role", "king"),
            "--role king (expected one of user, operator",
        ),
    ],
)
def test_what_is_wrong_is_told(grid: Up, words: tuple[str, ...], said: str) -> None:
    run = grid.koala(*words)
    assert (run.returncode, run.stdout) == (2, "")
    assert said in run.stderr


def test_no_secret_is_in_a_list_of_processes_or_in_an_environment_that_others_see(
    grid: Up,
) -> None:
    """Everything that a grid starts, while it runs: arguments, and logs beside them."""
    token = grid.koala("site", "add", "secretive").stdout.splitlines()[1]
    administrator = next(
        path for path in Path(grid.said_state()).rglob("administrator.toml")
    ).read_text()
    secret = administrator.split('token = "')[1].split('"')[0]
    for process in grid.children():
        try:
            words = " ".join(process.cmdline())
        except psutil.Error:
            continue
        assert secret not in words
        assert token.split("|")[4] not in words
    for path in Path(grid.said_state()).rglob("*.log"):
        text = path.read_text(errors="replace")
        assert secret not in text
        assert token.split("|")[4] not in text
