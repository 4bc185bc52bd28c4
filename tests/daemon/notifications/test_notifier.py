"""Notifications of the ends of jobs."""

from __future__ import annotations

import asyncio
import os
import pwd
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from koala.core.model.job import Cancelled, Failed, Job, Phase
from koala.core.model.job_spec import Notify
from koala.core.model.values import JobId, UserName
from koala.daemon.notifications import notifier as notifiers
from koala.daemon.notifications.notifier import Notifier, NotifyRules
from koala.daemon.storage.records import Notice
from koala.errors import RejectedError
from tests.common.files.stage import comes_true
from tests.harness.builders import a_spec

J1 = JobId("j1")
ME = pwd.getpwuid(os.geteuid()).pw_name
RULES = NotifyRules(has_bus=True, account="ann")


def wanted(*command: str, topic: str = "", owner: str = "ann", phase: Phase | None = None) -> Job:
    spec = a_spec(1, owner=UserName(owner), notify=Notify(topic=topic, command=command), name="x")
    phase = phase or Failed(at=1.0, reason="it failed", status=3)
    return Job(id=J1, spec=spec, submitted_at=0.0, phase=phase, claim_fraction=0.0)


def a_notice(phase: str, text: str = "it failed") -> Notice:
    return Notice(number=1, at=1.0, job=J1, site="", phase=phase, text=text)


@pytest.mark.parametrize(
    ("rules", "job", "text"),
    [
        (RULES, wanted("/bin/true", owner="bob"), "runs programs for the user ann"),
        (NotifyRules(has_bus=True, account=""), wanted("/bin/true"), "for nobody here"),
        (NotifyRules(has_bus=False, account="ann"), wanted(topic="t"), "has no MQTT broker"),
    ],
)
def test_what_a_daemon_cannot_or_must_not_do_is_refused(
    rules: NotifyRules, job: Job, text: str
) -> None:
    RULES.check(wanted("/bin/true", topic="t").spec)
    with pytest.raises(RejectedError, match=text):
        rules.check(job.spec)


def test_a_daemon_on_plain_text_runs_no_programs() -> None:
    """Anybody on the machine could call it by any name."""
    assert NotifyRules.of_daemon(has_bus=False, is_plain=True).account == ""
    expected = ME if os.geteuid() else ""  # nor does one of root
    assert NotifyRules.of_daemon(has_bus=False, is_plain=False).account == expected


async def test_a_program_learns_of_the_end_in_its_environment(tmp_path: Path) -> None:
    told = tmp_path / "told"
    phase = Cancelled(at=1.0, reason="by ann")
    job = wanted("/bin/sh", "-c", f"env | grep ^KOALA_ > {told}.part; mv {told}.part {told}",
                 phase=phase)  # fmt: skip
    notifier = Notifier({J1: job}.get, None)
    notifier.publish([a_notice("Cancelled", "by $(ann)")])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(notifier.run())
        await comes_true(told.exists)
        task.cancel()
    lines = sorted(told.read_text(encoding="utf-8").splitlines())
    assert lines == [
        "KOALA_JOB=j1", "KOALA_NAME=x", "KOALA_PHASE=Cancelled", "KOALA_STATUS=",
        "KOALA_TEXT=by $(ann)",
    ]  # fmt: skip


async def test_a_program_that_does_not_end_is_killed_and_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifiers, "LIMIT_S", 0.2)
    monkeypatch.setattr(notifiers, "AT_ONCE", 1)
    told, pid = tmp_path / "told", tmp_path / "pid"
    jobs = {
        J1: wanted("/bin/sh", "-c", f"sleep 1000 & echo $! > {pid}; wait"),
        JobId("j2"): wanted("/no/such/program"),
        JobId("j3"): wanted("/bin/sh", "-c", f"echo > {told}"),
    }
    notifier = Notifier(jobs.get, None)
    for name in jobs:
        notice = Notice(number=1, at=1.0, job=name, site="", phase="Failed", text="")
        notifier.publish([notice])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(notifier.run())
        await comes_true(told.exists)
        task.cancel()
    with suppress(psutil.NoSuchProcess):
        left = psutil.Process(int(pid.read_text()))
        await comes_true(lambda: not left.is_running() or left.status() == psutil.STATUS_ZOMBIE)
