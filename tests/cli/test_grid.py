"""Grid files: what is written for each process, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.daemon.config import read_config as read_daemon
from koala.errors import ConfigError
from koala.local.demo_scenario import FILES, plan
from koala.local.folders import shipped, state_folder
from koala.local.grid_file import ANY_PORT, GridFile, lay_out, parse_grid, read_grid
from koala_agent.config import read_config as read_agent
from tests.tidy.sources import ROOT

SMALL = """
[parameters]
run_lease_s = 700.0
[sites.delft.site]
processors = 4
[sites.vu]
site = { processors = 8, grace_s = 1.0 }
load = { arrivals_per_hour = 5.0 }
"""


def grid(text: str) -> GridFile:
    return parse_grid(text, source="g.toml", folder=Path("/somewhere"))


def test_each_process_gets_a_configuration_of_its_own(tmp_path: Path) -> None:
    folder = lay_out(grid(SMALL), tmp_path, address=ANY_PORT)
    daemon = read_daemon(folder.daemon)
    assert daemon.daemon.listen == ANY_PORT
    assert daemon.parameters.run_lease_s == 700.0
    folder.write_agents("127.0.0.1:4242")
    agents = {name: read_agent(folder.agent(name)) for name in folder.sites}
    assert [(a.agent.site, a.site.processors) for a in agents.values()] == [("delft", 4), ("vu", 8)]
    assert {agent.agent.daemon for agent in agents.values()} == {"127.0.0.1:4242"}
    assert len({daemon.state_dir, *(a.agent.state_dir for a in agents.values())}) == 3
    assert {agent.files.store for agent in agents.values()} == {
        str(folder.store("delft")),
        str(folder.store("vu")),
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("x = [", "not TOML"),
        ("", "sites is missing"),
        ("sites = 3", "sites = 3 (expected a table"),
        ("[sites]\ndelft = 3", "sites.delft = 3 (expected a table"),
        ("[sites.delft]\nsite = 3", "sites.delft.site = 3 (expected a table"),
        ("[sites.delft.site]", "sites.delft: site.processors is missing"),
        ("[sites.delft.site]\nprocessors = 0", "site.processors = 0 (expected"),
        ("[sites.delft.site]\nprocesors = 4", "did you mean processors?"),
        ("[sites.delft.sight]\nprocessors = 4", "sight"),
        (f"{SMALL}\n[daemon]\nbeat = 1", "daemon.beat is unknown"),
        (f"{SMALL}\n[daemon]\nstate_dir = 'x'", "daemon.state_dir follows from the grid"),
        (
            f"{SMALL}\n[sites.vu.agent]\ndaemon = 'x:1'",
            "sites.vu.agent.daemon follows from the grid",
        ),
        (f"state_dir = 3\n{SMALL}", "state_dir = 3 (expected the path of a folder"),
        (f"beds = 3\n{SMALL}", "beds = 3 (expected a table"),
        (f"{SMALL}\n[beds]\nx = 3", "beds"),
        ("[sites.'a b'.site]\nprocessors = 4", "'a b'"),
    ],
)
def test_what_is_wrong_in_a_grid_file_is_named(text: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        lay_out(grid(text), tmp_path, address=ANY_PORT)
    assert str(error.value).startswith("g.toml: ")
    assert named in str(error.value)
    assert list(tmp_path.rglob("*.toml")) == []


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigError, match=str(path)):
            read_grid(path)


@pytest.mark.parametrize(
    "path", sorted(ROOT.joinpath("deploy").glob("*.toml")), ids=lambda path: path.name
)
def test_every_file_in_deploy_is_a_configuration(path: Path, tmp_path: Path) -> None:
    match path.name:
        case "daemon.toml":
            read_daemon(path)
        case name if name.startswith("agent"):
            read_agent(path)
        case _:
            lay_out(read_grid(path), tmp_path, address=ANY_PORT)


@pytest.mark.parametrize("seed", range(20))
def test_poisson_runs_over_distinct_sites_and_not_only_where_its_file_is(seed: int) -> None:
    from koala.job_descriptions import read_job

    for job in plan(shipped("examples"), seed=seed, jobs=14):
        if job.name.startswith("poisson"):
            spec = read_job(job.text).spec
            sites = [component.site for component in spec.components]
            assert len(set(sites)) == len(sites) >= 3
            file = spec.input_file
            assert file is None or not set(sites) <= set(FILES[file.name])


def test_a_temporary_state_folder_is_removed_unless_it_is_kept(tmp_path: Path) -> None:
    said: list[str] = []
    with state_folder(None, prefix="koala-test-") as removed:
        pass
    with state_folder(None, prefix="koala-test-") as kept:
        kept.keep(said.append)
    with state_folder(tmp_path / "a" / "b", prefix="") as named:
        pass
    assert (removed.path.exists(), kept.path.exists(), named.path.exists()) == (False, True, True)
    assert str(kept.path) in said[0]
    kept.path.rmdir()
