"""A program that writes into its starter's files, or puts bytes into its name, harms only its own
claim."""

from __future__ import annotations

import json
import math
import resource
from pathlib import Path
from typing import Any

import pytest

from koala.common.protocol import messages
from koala.common.protocol.messages import EndKind, Report, ReportState
from koala.common.protocol.names import ClaimId, SiteName
from koala_agent.claims.folder import StarterRecord
from koala_agent.link import codec
from koala_agent.placeholders import submission as placeholders
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.starter.program import STATE_FOLDER
from koala_agent.starter_link import codec as starter_codec

CLAIM = ClaimId("j1/1/0/1")
FACTS = codec.SiteDescription(
    version="1",
    site=SiteName("a"),
    facts=messages.Facts(processors=1, grace_s=1.0, starts_after_stop=False, address="a"),
)
END = {"kind": "exited", "statuses": [3], "ended_at": 12.5, "cpu_s": 0.5, "memory_bytes": 7}


def record(tmp_path: Path, *, passed: Any = None, end: Any = None) -> StarterRecord | None:
    """Return what the agent reads of these files."""
    place = LaunchSettings(root=tmp_path, site="a")
    folder = place.folder(CLAIM) / STATE_FOLDER
    folder.mkdir(parents=True)
    for name, content in (("passed.json", passed), ("end.json", end)):
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    return placeholders.read_record(CLAIM, place)


def test_a_record_that_cannot_be_read_now_is_not_taken_for_none(tmp_path: Path) -> None:
    """Its job would run once more though it had ended well."""
    assert record(tmp_path, end={"nonce": "n", "end": END}) is not None
    place = LaunchSettings(root=tmp_path, site="a")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            placeholders.read_record(CLAIM, place)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert placeholders.read_record(CLAIM, place) is not None


def test_the_end_of_a_second_starter_is_not_that_of_the_one_that_passed(tmp_path: Path) -> None:
    passed = {"nonce": "first", "passed_at": 11.5}
    found = record(tmp_path, passed=passed, end={"nonce": "second", "end": END})
    assert found == StarterRecord(nonce="first", passed_at=11.5, end=None)


@pytest.mark.parametrize("passed_at", [math.nan, math.inf, -1.0, "soon", None, [1], True])
def test_an_instant_that_nobody_can_mean_is_no_record(tmp_path: Path, passed_at: Any) -> None:
    assert record(tmp_path, passed={"nonce": "n", "passed_at": passed_at}) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"statuses": [2**40]},
        {"statuses": "0"},
        {"statuses": [True]},
        {"ended_at": math.inf},
        {"ended_at": "late"},
        {"cpu_s": []},
        {"cpu_s": math.nan},
        {"memory_bytes": 1e30},
        {"memory_bytes": {}},
        {"kind": "won"},
    ],
)
def test_an_end_that_nobody_can_mean_is_no_record(tmp_path: Path, wrong: dict[str, Any]) -> None:
    assert record(tmp_path, end={"nonce": "n", "end": {**END, **wrong}}) is None


def test_half_a_pair_of_surrogates_in_a_reason_reaches_the_wire_as_a_question_mark(
    tmp_path: Path,
) -> None:
    found = record(tmp_path, end={"nonce": "n", "end": {**END, "reason": "a\ud800"}})
    assert found is not None
    assert found.end is not None
    report = Report(claim=CLAIM, state=ReportState.GONE, nonce=found.nonce, end=found.end)
    assert codec.encode(report, lambda: FACTS).claim.end.reason == "a?"
    assert found.end.kind is EndKind.EXITED


@pytest.mark.parametrize("kind", ["put", "get"])
def test_a_name_that_the_store_cannot_hold_is_not_taken(kind: str) -> None:
    said: dict[str, object] = {"kind": kind, "request": 1, "name": "\ud800", "value": "x"}
    with pytest.raises(ValueError, match="surrogates not allowed"):
        starter_codec.decode(CLAIM, "n", {**said, "wait_s": 1.0})
