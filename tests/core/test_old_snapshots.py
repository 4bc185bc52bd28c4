"""States that the release of 18f0b22 saved, with jobs and claims in every phase, also those that do
not last: each is loaded, has the digest that was written with it, and goes on as it did.

They were saved by that release's scripts in this folder (`tests/harness/script.py`), each with the
events that followed and the digest at the end. `holds` names the phases in a state.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from koala.core.invariants import check
from koala.core.policy_api import NO_POLICIES
from koala.core.snapshot import load, save
from koala.daemon.storage.records import decode_event
from koala.views.digest import digest

FILE = Path(__file__).parents[1] / "states" / "18f0b22-phases.jsonl.gz"
SAVED = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]


@pytest.mark.parametrize("saved", SAVED, ids=[saved["holds"][0] for saved in SAVED])
def test_a_saved_state_is_loaded_in_any_phase_and_goes_on(saved: dict[str, Any]) -> None:
    scheduler = load(saved["state"], NO_POLICIES)
    assert digest(scheduler) == saved["digest"]
    scheduler = load(json.loads(json.dumps(save(scheduler))), NO_POLICIES)
    assert digest(scheduler) == saved["digest"]
    for kind, event, now, answers in saved["events"]:
        scheduler.replay(decode_event(kind, event), now, json.loads(answers))
        check(scheduler, now)
    assert digest(scheduler) == saved["digest_then"]


def test_every_phase_is_among_them() -> None:
    held = {words.split()[0] for saved in SAVED for words in saved["holds"]}
    assert {"Claiming", "Starting+tests", "Starting+arming", "Releasing", "Running"} <= held
    assert {"Placing", "Stopping", "Finished", "Failed", "Cancelled", "claim"} <= held
