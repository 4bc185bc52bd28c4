"""The digest of the state covers every fact, and no sentence.

Each script of the core's tests compares it after replays, with a snapshot on the way and with jobs
purged (tests/harness/script.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from koala.core.digest import TEXTS, digest
from koala.core.model.job import EndKind, Job, Placing
from koala.core.model.values import JobId
from koala.core.snapshot import TAGS
from koala.core.state import State
from tests.harness.builders import a_job, a_site
from tests.harness.script import Script

KNOWN = "ff1411c7b444d31c95163cfeac19afb203ab5df2d18ec5145a6b34c018d03c4d"
NOT_COVERED = {"policies", "recorder", "actions", "is_changed", "successors", "usage", "malleable"}
"""Attributes of the state that the next event needs not, or that the jobs tell."""
COUNTED = {"jobs", "ended", "forgotten", "keys", "keys_forgotten", "scanner"}
_set = object.__setattr__


def in_trouble() -> State:
    """j1 runs, j2 is claimed after a refusal, j3 is stopped, j4 waits, j5 is over and has a key."""
    script = Script()
    script.tell(a_site("a", 8), a_site("b", 8), a_site("c", 8)).replica("f", "a", 10**9)
    script.tell(a_job("j2", 8, 8, file="f")).drop().after(70.0)
    *_, refused = script.claimed("j2")
    script.refuse(refused).drop()
    script.tell(a_job("j1", 4, 4)).running("j1")
    script.tell(a_job("j3", 2, 2))
    first, _ = script.running("j3")
    script.gone(first, EndKind.FAILED, reason="the node is gone").drop()
    script.tell(a_job("j4", 99), replace(a_job("j5", 98), key="k", digest="d")).cancel("j5")
    return script.scheduler


def names_of(cls: type) -> list[str]:
    """The fields of a class of the state."""
    if is_dataclass(cls):
        return [field.name for field in fields(cls)]
    return [name for base in cls.__mro__ for name in getattr(base, "__slots__", ())]


def test_a_known_state_has_a_known_digest() -> None:
    found = digest(in_trouble())
    assert found == KNOWN, "a digest that changes needs a greater number of JOURNAL"


@pytest.mark.parametrize("cls", [cls for cls in TAGS.values() if not issubclass(cls, Enum)])
def test_every_field_of_every_class_is_a_fact_or_a_text(cls: type) -> None:
    state = in_trouble()
    thing: object = object.__new__(cls)
    for name in names_of(cls):
        _set(thing, name, 0)
    _set(state, "files", thing)  # any part will do
    before = digest(state)
    for name in names_of(cls):
        _set(thing, name, "changed")
        is_text = name in TEXTS.get(cls, ())
        assert (digest(state) == before) == is_text, f"{cls.__name__}.{name}"
        _set(thing, name, 0)
    assert digest(state) == before


@pytest.mark.parametrize("job", ["j1", "j2", "j3", "j4"])
def test_every_field_of_a_job_is_a_fact_but_its_story(job: str) -> None:
    state = in_trouble()
    before, changed = digest(state), state.jobs[JobId(job)]
    is_queued = isinstance(changed.phase, Placing)
    assert is_queued == (job == "j4")
    for name in names_of(Job):
        value = getattr(changed, name)
        _set(changed, name, value + 1 if isinstance(value, float) else "changed")
        is_text = name == "story" or (is_queued and name in ("spec", "deadline_at"))
        assert (digest(state) == before) == is_text, f"Job.{name}"
        _set(changed, name, value)


def test_every_part_of_the_state_is_a_fact() -> None:
    state = in_trouble()
    before = digest(state)
    assert vars(state).keys() >= NOT_COVERED | COUNTED
    for name in vars(state).keys() - COUNTED:
        value = getattr(state, name)
        _set(state, name, {"changed": True})
        assert (digest(state) == before) == (name in NOT_COVERED), name
        _set(state, name, value)
    state.forgotten["Failed"] = 1
    counted = digest(state)
    assert counted != before
    state.keys_forgotten += 1
    assert digest(state) != counted


@pytest.mark.parametrize("key", ["j1", "j2"])
def test_keys_and_the_order_of_live_jobs_are_facts(key: str) -> None:
    state = in_trouble()
    before = digest(state)
    state.jobs[JobId(key)] = state.jobs.pop(JobId(key))
    ordered = digest(state)
    assert ordered != before
    state.keys["k2"] = (JobId(key), "d")
    keyed = digest(state)
    state.keys["k2"] = (JobId(key), "another")
    assert len({before, ordered, keyed, digest(state)}) == 4


REWORDED = """
import ast, json, re, sys
from importlib.machinery import SourceFileLoader

class Reworded(ast.NodeTransformer):
    def visit_Constant(self, node):
        if isinstance(node.value, str) and re.search("[a-z]+ [a-z]*", node.value):
            return ast.Constant(node.value.upper())
        return node

def compiled(self, data, path, **more):
    tree = ast.parse(data)
    if "/koala/core/" in str(path) and not path.endswith(("policy_api.py", "state.py")):
        tree = ast.fix_missing_locations(Reworded().visit(tree))
    return compile(tree, path, "exec", dont_inherit=True)

SourceFileLoader.source_to_code = compiled
sys.pycache_prefix = sys.argv[1]  # no module as it was compiled before

from tests.core.test_digest import told
print(json.dumps(told()))
"""


def told() -> tuple[str, list[Any]]:
    """The digest of a state in trouble, and the texts that it holds."""
    state: State = in_trouble()
    jobs = list(state.jobs.values())
    attempts = [job.attempt for job in jobs if job.attempt is not None]
    members = [member for attempt in attempts for member in attempt.members]
    return digest(state), [
        [job.story for job in jobs],
        [getattr(job.phase, "reason", "") for job in jobs],
        [refusal.reason for job in jobs for refusal in job.refusals.values()],
        [member.refusal for member in members],
        [member.end.describe() for member in members if member.end is not None],
    ]


def test_a_core_with_other_sentences_gives_the_same_digest(tmp_path: Path) -> None:
    """Each constant of the core with a blank after a letter is in capitals."""
    command = [sys.executable, "-c", REWORDED, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    (reworded, others), (found, texts) = json.loads(run.stdout), told()
    assert others != json.loads(json.dumps(texts))
    assert reworded == found
