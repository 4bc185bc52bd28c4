"""The order of a pass: the starters of a machine first, then their programs, then the reports."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from koala_agent.starter import driver as module
from koala_agent.starter.compat import boot_now
from koala_agent.starter.driver import REPORT_PAUSE_S, StarterDriver
from koala_agent.starter.events import Fork, Open, Opened, ProcessEnded, Ready
from koala_agent.starter.messages import PASS_FILE
from tests.agent.site import own_claim
from tests.harness.forked import apart

LIMIT_S = 60.0


class Pauses:
    """In place of `time`: notes what is there at each pause, and waits for the program in the one
    before the report."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seen: list[tuple[float, bool, bool]] = []
        """Seconds, whether the pass was on record, and whether the program had begun."""

    def sleep(self, seconds: float) -> None:
        until = boot_now() + (LIMIT_S if seconds == REPORT_PAUSE_S else seconds)
        while not (has_begun := (self._folder / "begun").exists()) and boot_now() < until:
            os.sched_yield()
        record = (self._folder / ".koala" / PASS_FILE).read_text(encoding="utf-8").strip()
        self.seen.append((seconds, "passed_at" in json.loads(record or "{}"), has_begun))


@pytest.mark.live
@pytest.mark.parametrize("has_peers", [False, True])
@apart
def test_programs_wait_for_other_starters_and_reports_for_programs(
    tmp_path: Path, has_peers: bool
) -> None:
    """Apart: a starter becomes the parent of all orphans of its tree."""
    (tmp_path / ".koala").mkdir()
    pauses = Pauses(tmp_path)
    spec: dict[str, object] = {
        "claim": own_claim(),
        "folder": str(tmp_path),
        "agents": [],
        "bundle": {"members": []},
        "executable": "/bin/sh",
        "arguments": ["-c", "> begun"],
    }
    driver = StarterDriver(spec, "a nonce")
    (ready,) = driver.carry_out(Fork())
    assert isinstance(ready, Ready)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("koala_agent.starter.driver.time.sleep", pauses.sleep)
        patch.setattr(module, "RELEASE_PAUSE_S", 0.1)  # a program begins in less
        (opened,) = driver.carry_out(Open(not_after=boot_now() + LIMIT_S, has_peers=has_peers))
    assert isinstance(opened, Opened)
    wanted = [(0.1, True, False), (REPORT_PAUSE_S, True, True)]
    assert pauses.seen == (wanted if has_peers else [])
    until = boot_now() + LIMIT_S
    while not any(isinstance(event, ProcessEnded) for event in driver.poll_processes()):
        assert boot_now() < until
    driver.close()
