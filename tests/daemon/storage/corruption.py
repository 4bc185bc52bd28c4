"""Flips bits and cuts files of a daemon's state, and starts from what is left.

    python -m tests.daemon.storage.corruption --flips 2000 --cuts 500 [--seed N]

Whatever is done to the database, its write-ahead log or the mark beside it, the next start either
has all that had been committed or is refused with the file, the reason and what an operator can do;
never does it go on with less. Somebody who knows what had been committed is there: the mark file,
or an agent, which shows at registration what its orders rest on.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import structlog

from koala.core.digest import digest
from koala.core.model.events import Event, JobCancelRequested, JobSubmitted, SiteRegistered
from koala.core.model.grid import SiteFacts
from koala.core.model.values import JobId, SiteName, UserName
from koala.daemon.config import Config, parse_config
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.group_commit import BatchContext, Retention
from koala.daemon.state.recovery import LOST_EPOCHS_MAX, Recovered, begin_run, recover
from koala.daemon.storage.folder import FILE, POSITION_FILE
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import ADVICE, RESTORE, JournalPosition
from koala.daemon.storage.watermark import Watermarks, WatermarkVerdict
from koala.errors import JournalError
from koala.views.documents import summary
from tests.harness.builders import a_spec

WAL = f"{FILE}-wal"
DELFT = SiteName("delft")
SECRET = b"secret"
CONFIG = '[daemon]\nplain = true\nstate_dir = "state"\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state directory as a killed daemon left it, and what had been committed."""

    folder: Path
    mark: JournalPosition
    jobs: dict[str, object]


def make_state(folder: Path) -> State:
    """Two lives: one that ended in order, so that there is a snapshot, and one that was killed."""
    asyncio.run(_live(folder, begin=0))
    (folder / "killed").mkdir()
    return asyncio.run(_live(folder, begin=60, killed=folder / "killed" / "state"))


async def _live(folder: Path, *, begin: int, killed: Path | None = None) -> State:
    config = config_of(folder)
    journal = Journal.open(config.state_dir)
    found = recover(journal, config)
    event_loop = EventLoop(
        found.scheduler,
        journal,
        found.clock,
        digest=digest,
        jobs=found.jobs,
        retention=Retention(keep_jobs=10, keep_jobs_s=1e9, snapshot_events=10**9),
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(event_loop.run())
        for event in _events(begin):
            await event_loop.ask(partial(_tell, event))
        if killed is not None:
            shutil.copytree(config.state_dir, killed)
        state = State(folder=folder / "killed", mark=journal.position, jobs=jobs_of(found))
        event_loop.close()
        await running
    journal.close()
    return state


def spoil_history(state_dir: Path) -> None:
    """A page with events that no start needs cannot be read."""
    Journal.open(state_dir).close()  # what is in its log goes into the database
    data = bytearray((state_dir / FILE).read_bytes())
    page = data.rindex(b"JobSubmitted", 0, data.index(b'"job":"j9"')) // 4096 * 4096
    data[page : page + 8] = b"\xff" * 8
    (state_dir / FILE).write_bytes(data)


def _tell(event: Event, turn: BatchContext) -> None:
    turn.emit(event)


def _events(begin: int) -> Iterator[Event]:
    yield SiteRegistered(site=DELFT, facts=SiteFacts(processors=2), idle=0)
    for number in range(begin, begin + 60):
        job = JobId(f"j{number}")
        yield JobSubmitted(job=job, spec=a_spec(1), key=f"ann\0{number}", digest="d")
        if number % 3:
            yield JobCancelRequested(job=job, by=UserName("ann"))


def config_of(folder: Path) -> Config:
    """The configuration of a daemon whose state is below the folder."""
    return parse_config(CONFIG, source="corruption", folder=folder)


def jobs_of(found: Recovered) -> dict[str, object]:
    """Return the end of each job in the state, and how many were forgotten."""
    jobs: dict[str, object] = {job.id: summary(job) for job in found.scheduler.jobs.values()}
    return {**jobs, "forgotten": sum(found.scheduler.forgotten.values())}


def outcome(state: State, folder: Path) -> str:
    """Start on the state directory in a folder: recovered, or a refusal. Raises AssertionError when
    it goes on with something else than what had been committed."""
    try:
        journal = Journal.open(folder / "state")
        try:
            found = recover(journal, config_of(folder))
            is_same = journal.chain_at(state.mark.seq) == state.mark.chain
            watermarks = Watermarks(
                secret=SECRET,
                epoch=found.scheduler.epoch,
                loss_epoch=found.scheduler.loss_epoch,
                newest=lambda: journal.position,
                chain_at=journal.chain_at,
            )
            shown = watermarks.sign(DELFT, state.mark)
            if watermarks.verify(DELFT, shown) is WatermarkVerdict.BEHIND:
                return "refused: an agent knows more"
        finally:
            journal.close()
    except JournalError as error:
        text = str(error)
        assert str(folder / "state") in text, f"the file is not named: {text}"
        assert RESTORE in text or "journal format" in text, f"there is no advice: {text}"
        return "refused: damaged" if ADVICE in text else "refused: unusable"
    assert is_same, "the last committed event is not there"
    assert jobs_of(found) == state.jobs, "another state than was committed"
    return "recovered"


def with_loss(state: State, folder: Path) -> str:
    """Start on it as an operator who accepts the loss: all, a part, or a refusal. Raises
    AssertionError when it is no part of what had been committed."""
    try:
        journal, found = begin_run(config_of(folder), accept_loss=True)
    except JournalError as error:
        return f"with --accept-loss: refused{', and advised again' * (ADVICE in str(error))}"
    journal.close()
    known = set(state.jobs)
    assert known >= {job.id for job in found.scheduler.jobs.values()}
    is_all = set(jobs_of(found)) == known
    if found.scheduler.epoch < LOST_EPOCHS_MAX:
        assert jobs_of(found) == state.jobs, "it goes on as if nothing was lost"
        return "with --accept-loss: all jobs, nothing lost"
    return f"with --accept-loss: {'all jobs' if is_all else 'some jobs'}"


def flip(folder: Path, random: Random) -> str:
    """Flip one random bit of the state; what was done."""
    path = _chosen(folder, random)
    data = bytearray(path.read_bytes())
    bit = random.randrange(len(data) * 8)
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    return f"bit {bit} of {path.name}"


def cut(folder: Path, random: Random) -> str:
    """Cut a file at a random offset, or remove it; what was done."""
    path = _chosen(folder, random)
    if random.random() < 0.05:
        path.unlink()
        return f"{path.name} removed"
    offset = random.randrange(path.stat().st_size)
    with path.open("r+b") as file:
        file.truncate(offset)
    return f"{path.name} cut to {offset}"


def _chosen(folder: Path, random: Random) -> Path:
    """A file, by its size; the small mark now and then."""
    if random.random() < 0.05:
        return folder / "state" / POSITION_FILE
    paths = [folder / "state" / FILE, folder / "state" / WAL]
    (path,) = random.choices(paths, weights=[path.stat().st_size for path in paths])
    return path


def campaign(state: State, scratch: Path, *, flips: int, cuts: int, seed: int) -> Counter[str]:
    """So many of each; how often each outcome came. Raises AssertionError with what was done."""
    random = Random(seed)
    counted: Counter[str] = Counter()
    for change, count in ((flip, flips), (cut, cuts)):
        for number in range(count):
            folder = scratch / f"{change.__name__}{number}"
            shutil.copytree(state.folder, folder)
            done = change(folder, random)
            try:
                found = outcome(state, folder)
                counted[f"{change.__name__}: {found}"] += 1
                if found in ("refused: damaged", "refused: an agent knows more"):
                    counted[f"{change.__name__}: {with_loss(state, folder)}"] += 1
            except AssertionError as error:
                raise AssertionError(f"{done} (seed {seed}): {error}") from error
            shutil.rmtree(folder)
    return counted


def main() -> None:
    """The campaign as a command."""
    parser = argparse.ArgumentParser(prog="python -m tests.daemon.storage.corruption")
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--cuts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with tempfile.TemporaryDirectory(prefix="koala-corruption-") as folder:
        state = make_state(Path(folder))
        counted = campaign(
            state, Path(folder), flips=options.flips, cuts=options.cuts, seed=options.seed
        )
    for words, count in sorted(counted.items()):
        print(f"{count:6}  {words}")


if __name__ == "__main__":
    main()
