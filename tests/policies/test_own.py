"""Policies that are named as `module:function`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from koala.common.protocol.ordering import QueuedJob
from koala.common.runtime.foreign.guards import Guarded
from koala.common.runtime.plugins import FOLDER_VARIABLE
from koala.core.policy_api import Ordering
from koala.daemon.config import parse_config
from koala.errors import ConfigError
from koala.lab.sim.journal_replay.world import policies_of
from koala.policies import named
from koala.policies.changes import Changes
from koala.policies.slots import replaced_policies
from koala.queue_model import local_scheduler

OWN = """
from koala.common.protocol.ordering import QueuedJob
from koala.core.model.visiting import Discipline
from koala.policies.placement.worst_fit import worst_fit
from koala.policies.queueing.multiqueue import DISCIPLINES
from koala.policies.progress.synchronous import synchronous

def narrow(job: QueuedJob) -> float:
    return job.processors

def place(request, view):
    return worst_fit(request, view)

def wrong(job: QueuedJob) -> str:
    return "x"

def keep(question):
    return ()

MINE = DISCIPLINES["GS"]
number = 7
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of one's own in the present folder."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


@pytest.mark.parametrize(
    ("slot", "function", "text"),
    [
        ("placement", "own:gone", "own:gone cannot be loaded: AttributeError"),
        ("placement", "nowhere:place", "cannot be loaded: ModuleNotFoundError"),
        (
            "placement",
            "own:",
            "cannot be loaded: ValueError: not a function's name (expected module:function",
        ),
        ("placement", "own:number", "own:number is not a function"),
        ("placement", "own:narrow", "own:narrow takes 1 arguments (expected 2)"),
        ("placement", "own:MINE", "own:MINE is not a function"),
        ("local", "own:place", "own:place takes 2 arguments (expected 1)"),
        ("claiming", "ICQ", "expected one of ICP, RPP, or a function as module:function"),
    ],
)
def test_what_is_no_policy_of_a_slot_is_refused_with_what_is(
    own: str, slot: str, function: str, text: str
) -> None:
    find = local_scheduler if slot == "local" else partial(named, slot)
    with pytest.raises(ConfigError) as error:
        find(function.replace("own:", f"{own}:"))
    assert text in str(error.value).replace(own, "own")


def test_the_parts_of_a_grid_find_what_is_where_koala_up_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run in a folder of the grid's state."""
    (tmp_path / "called").mkdir()
    (tmp_path / "called" / "of_the_grid.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(ConfigError, match="ModuleNotFoundError"):
        named("queueing", "of_the_grid:narrow")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "called"))
    assert named("queueing", "of_the_grid:narrow").function.__name__ == "narrow"


def test_a_daemon_and_a_what_if_take_them_in_every_slot(own: str, tmp_path: Path) -> None:
    text = (
        f'[daemon]\nstate_dir = "s"\n[policies]\nqueueing = "{own}:narrow"\n'
        f'placement = "{own}:place"\nprogress = "{own}:keep"\n'
    )
    config = parse_config(text, source="test.toml", folder=tmp_path)
    assert config.policies.progress_default == f"{own}:keep"
    names = dict(config.policy_names)
    assert isinstance(policies_of(names, Changes()).queueing, Ordering)
    assert policies_of(names, Changes(policies={"queueing": f"{own}:MINE"})).queueing.name == "GS"


def test_an_order_that_errs_is_replaced_by_that_of_submission(own: str, tmp_path: Path) -> None:
    text = f'[daemon]\nstate_dir = "s"\n[policies]\nqueueing = "{own}:wrong"\n'
    policies = parse_config(text, source="test.toml", folder=tmp_path).policies
    assert isinstance(policies.queueing, Ordering)
    assert isinstance(policies.queueing.order, Guarded)
    job = QueuedJob(user="ann", processors=1, estimate_s=1.0, waited_s=0.0)
    assert policies.queueing.order(job) == ()
    assert "the sort key 'x'" in replaced_policies(policies)[f"queueing.{own}:wrong"]
