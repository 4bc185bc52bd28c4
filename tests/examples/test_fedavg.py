"""The federated averaging application, run for real over several processes."""

from pathlib import Path
from typing import Any

import pytest

from tests.examples.programs import RENDEZVOUS
from tests.examples.stage import Stage

pytestmark = [pytest.mark.live]


def _learn(folder: Path, sites: int) -> dict[str, Any]:
    folder.mkdir()
    with Stage(folder, [1] * sites) as stage:
        stage.start("fedavg/fedavg.py")
        assert [(process.status, process.errors) for process in stage.finish()] == [(0, "")] * sites
        result = stage.result()
        del result["seconds"]
        return result


def test_four_sites_learn_together_what_none_learns_alone(tmp_path: Path) -> None:
    result = _learn(tmp_path / "a", 4)
    assert result["ok"] is True
    assert result["accuracy"] > 0.9
    assert len(result["accuracy_alone"]) == 4
    assert result["accuracy"] >= max(result["accuracy_alone"].values()) + 0.05
    assert len(set(result["samples"].values())) > 1  # uneven shares
    assert result["lost"] == []


def test_a_model_that_was_never_averaged_does_not_pass(tmp_path: Path) -> None:
    with Stage(tmp_path, [1, 1]) as stage:
        stage.start("fedavg/fedavg.py", "--rounds", "0")
        ended = stage.finish()
        result = stage.result()
    assert [process.status for process in ended] == [1, 1]
    assert result["ok"] is False
    assert all("not better than the local ones" in process.errors for process in ended)


def _come_and_leave(stage: Stage, rank: int) -> None:
    """Be a site that meets the leader and ends before the first round."""
    world = RENDEZVOUS.Rendezvous.from_environment("fedavg", stage.environment(rank, 0))
    world.connect(0).close()
    world.close()


def test_a_quorum_goes_on_without_a_lost_site(tmp_path: Path) -> None:
    """Components 0, 2 and 3 of four are members; 3 leaves; two are enough."""
    with Stage(tmp_path, [1, 1, 1], components=[0, 2, 3]) as stage:
        stage.start("fedavg/fedavg.py", "--sites", "4", "--sites-min", "2", ranks=[0, 1])
        _come_and_leave(stage, 2)
        ended = stage.finish()
        result = stage.result()
    assert [process.status for process in ended] == [0, 0]
    assert result["lost"] == ["c3"]
    assert sorted(result["accuracy_alone"]) == ["c0", "c2"]
