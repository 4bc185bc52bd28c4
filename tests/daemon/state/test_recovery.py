"""Recovery at a start: epochs, parameters, the clock and the digest of the journal."""

from pathlib import Path

import pytest

from koala.common.runtime.clock import Clock
from koala.core.model.events import DaemonStarted, Event, Woken
from koala.core.scheduler import Scheduler
from koala.daemon.config import Config
from koala.daemon.state.recovery import recover
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import Batch, Record
from koala.errors import JournalError
from tests.daemon.running import config_of


def recovered(config: Config) -> tuple[Scheduler, int, list[Event]]:
    journal = Journal.open(config.state_dir)
    try:
        found = recover(journal, config)
        return found.scheduler, found.jobs, [r.event for r in list(journal.records())]
    finally:
        journal.close()


def test_each_start_is_a_new_epoch_and_says_parameters_only_when_they_changed(
    tmp_path: Path,
) -> None:
    first, _, events = recovered(config_of(tmp_path))
    assert first.epoch == 1
    assert [type(event).__name__ for event in events] == ["ParametersChanged", "DaemonStarted"]
    second, _, events = recovered(config_of(tmp_path))
    assert second.epoch == 2
    assert events[2:] == [DaemonStarted(epoch=2)]
    third, _, events = recovered(config_of(tmp_path, parameters="hold_s = 5.0"))
    assert [type(event).__name__ for event in events[3:]] == ["ParametersChanged", "DaemonStarted"]
    assert third.parameters.hold_s == 5.0


def test_a_clock_never_runs_behind_the_journal(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "state")
    assert list(journal.records()) == []
    far_at = Clock().now() + 1e6
    journal.append(Batch(records=[Record(seq=1, at=far_at, event=Woken(), answers=[])]))
    journal.close()
    journal = Journal.open(tmp_path / "state")
    found = recover(journal, config_of(tmp_path))
    assert found.clock.now() >= far_at
    journal.close()


def test_a_replay_to_another_state_refuses_to_start_and_says_where(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    recovered(config)
    journal = Journal.open(config.state_dir)
    assert len(list(journal.records())) == 2
    journal.append(Batch(records=[], digest="0" * 64))
    journal.close()
    with pytest.raises(JournalError, match="up to event 2 gives another state"):
        recovered(config)
