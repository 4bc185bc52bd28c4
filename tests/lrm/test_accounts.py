"""The manager of batch systems where claims run as several accounts: who is asked, about whose."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.errors import LocalManagerError
from koala_agent.lrm.batch import BatchManager, BatchSettings
from koala_agent.lrm.dialect import job_name
from koala_agent.lrm.port import EndCause, Ended, Placeholder, Queued, Running, serving
from koala_agent.lrm.shell import Answer, Command, Entry, Shell
from koala_agent.lrm.slurm import Slurm
from tests.lrm.harness import Witness
from tests.lrm.test_batch import Cluster, Job

FIRST, SECOND = "j1/1/0/1", "j1/1/1/1"


class Shared(Cluster):
    """A Slurm of several accounts, each of which sees and cancels its own jobs only."""

    def __init__(self) -> None:
        super().__init__()
        self.owner: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.locked: set[str] = set()  # accounts that nobody can become

    async def run(self, command: Command, account: str = "") -> Answer:
        """See Shell."""
        self.asked.append((account, command.argv[0]))
        if account in self.locked:
            raise LocalManagerError(f"as {account}: a password is required")
        number = command.argv[-1]
        if number in self.owner and self.owner[number] != account:
            return Answer(status=1, out="", err="Access/permission denied")
        known = set(self.jobs)
        answer = await super().run(command, account)
        if command.argv[0] == "sbatch":
            self.owner |= dict.fromkeys(set(self.jobs) - known, account)
        if "--me" in command.argv:
            rows = [
                row for row in answer.out.splitlines() if self.owner.get(row.split()[0]) == account
            ]
            return Answer(status=0, out="\n".join(rows), err="")
        return answer

    def add(self, number: str, name: str, owner: str) -> None:
        """A job that an account has submitted by itself."""
        self.jobs[number], self.owner[number] = Job(name, "RUNNING"), owner


def manager_of(cluster: Cluster, folder: Path) -> BatchManager:
    settings = BatchSettings(
        processors=16,
        state_directory=folder / "lrm",
        scope="ab",
        poll_s=0.01,
        figures_s=0.01,
        accounts=("anna1", "bert1", "idle1"),
    )
    return BatchManager(settings, Slurm(), cluster, tell=Witness(), clock=cluster.clock)


def placeholder(claim: str, account: str, folder: Path) -> Placeholder:
    return Placeholder(
        claim=claim,
        processors=2,
        time_limit_s=60.0,
        argv=("/bin/sh",),
        body="true",
        directory=folder / "unseen",
        account=account,
    )


async def test_each_command_about_a_claim_is_run_as_its_account(tmp_path: Path) -> None:
    cluster = Shared()
    manager = manager_of(cluster, tmp_path)
    async with serving(manager):
        await manager.listing()
        asked = {who for who, what in cluster.asked if what == "squeue"}
        assert asked == {"", "anna1", "bert1", "idle1"}, "what an earlier run left is found"
        for claim, account in ((FIRST, "anna1"), (SECOND, "bert1")):
            await manager.submit(placeholder(claim, account, tmp_path))
        assert list(cluster.owner.values()) == ["anna1", "bert1"]
        assert await manager.listing() == (Queued(claim=FIRST), Queued(claim=SECOND))
        cluster.asked.clear()
        await manager.withdraw(SECOND)
        assert ("bert1", "scancel") in cluster.asked
        await manager.listing()
        assert "idle1" not in {who for who, _ in cluster.asked}, "who has no claims is not asked"
        assert not (tmp_path / "unseen").exists(), "folders of accounts are not made by the agent"


async def test_a_job_under_another_account_s_name_is_neither_believed_nor_ended(
    tmp_path: Path,
) -> None:
    """Names of batch jobs can be read by everybody, and given to one's own jobs."""
    cluster = Shared()
    manager = manager_of(cluster, tmp_path)
    async with serving(manager):
        await manager.submit(placeholder(FIRST, "anna1", tmp_path))
        await manager.submit(placeholder(SECOND, "bert1", tmp_path))
        cluster.jobs["1"].state = "RUNNING"
        cluster.add("9", job_name(FIRST, scope="ab"), "bert1")
        cluster.jobs["9"].state = "COMPLETED"
        cluster.add("10", job_name(FIRST, scope="ab"), "bert1")
        assert await manager.listing() == (Running(claim=FIRST), Queued(claim=SECOND))
        await cluster.polls(30)
        assert cluster.cancelled() == []
        assert manager.number(FIRST) == "1"


async def test_an_account_that_cannot_be_asked_leaves_the_others_in_peace(tmp_path: Path) -> None:
    cluster = Shared()
    manager = manager_of(cluster, tmp_path)
    async with serving(manager):
        await manager.submit(placeholder(FIRST, "anna1", tmp_path))
        await manager.submit(placeholder(SECOND, "bert1", tmp_path))
        await manager.listing()
        cluster.locked.add("bert1")
        cluster.jobs["1"].state = "COMPLETED"
        del cluster.jobs["2"]
        with pytest.raises(LocalManagerError, match="as bert1: a password"):
            await manager.listing()
        cluster.now += 1000.0
        with pytest.raises(LocalManagerError, match="as bert1: a password"):
            await manager.listing()
        cluster.locked.clear()
        first, second = await manager.listing()
        assert first == Ended(claim=FIRST, cause=EndCause.EXITED, exit_status=0)
        assert second == Queued(claim=SECOND), "what nobody could look at has not been missing"


async def test_a_command_for_an_account_goes_behind_the_words_that_become_it() -> None:
    entry = Entry(prefix=("env", "WHO=anna1"), environment={"HOME": "/home/anna1"})
    base = {"PATH": "/usr/bin:/bin", "HOME": "/root", "TMPDIR": "/root/tmp"}
    shell = Shell(environment=base, entries={"anna1": entry})
    told = Command(argv=("sh", "-c", "echo $WHO $HOME ${TMPDIR-none}; pwd"))
    assert (await shell.run(told, "anna1")).out.split() == ["anna1", "/home/anna1", "none", "/"]
    assert (await shell.run(told)).out.split()[:2] == ["/root", "/root/tmp"]
    with pytest.raises(LocalManagerError, match="as bert1: the configuration names it no more"):
        await shell.run(told, "bert1")
