"""The manager of batch systems where claims run as several accounts: who is asked, about whose."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from koala.errors import LocalManagerError
from koala_agent.conformance.witness import Witness
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.batch.figures.idle_processors import idle_of
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.dialect import Figures
from koala_agent.lrm.local_manager import (
    OnReport,
    Placeholder,
    Queued,
    Running,
)
from koala_agent.transport.interface import Answer, Command
from koala_agent.transport.shell import AccountSwitch, Shell
from tests.lrm.batch.imitated_slurm import Cluster, Job
from tests.lrm.harness import serving

FIRST, SECOND, THIRD, FOURTH = (f"j1/1/{number}/1" for number in range(4))


class Shared(Cluster):
    """A Slurm of several accounts, each of which sees and cancels its own jobs only."""

    def __init__(self) -> None:
        super().__init__()
        self.owner: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.locked: set[str] = set()  # accounts that nobody can become
        self.hanging: set[str] = set()  # whose commands do not end
        self.at_once = self.at_once_max = 0

    async def run(self, command: Command, account: str = "") -> Answer:
        """See Shell."""
        self.asked.append((account, command.argv[0]))
        if account in self.hanging:
            await self._hang(command)
        if account in self.locked:
            raise LocalManagerError(f"as {account}: a password is required")
        number = command.argv[-1]
        if number in self.owner and self.owner[number] != account:
            return Answer(status=1, out="", err="Access/permission denied")
        known = set(self.jobs)
        try:
            answer = await super().run(command, account)
        finally:
            if command.argv[0] == "sbatch":
                self.owner |= dict.fromkeys(set(self.jobs) - known, account)
        if "--me" in command.argv:
            rows = [
                row for row in answer.out.splitlines() if self.owner.get(row.split()[0]) == account
            ]
            return Answer(status=0, out="\n".join(rows), err="")
        return answer

    async def _hang(self, command: Command) -> None:
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        for _ in range(50):
            await asyncio.sleep(0)
        self.at_once -= 1
        raise LocalManagerError(f"{command.argv[0]} gave no answer in 15 s", transient=True)

    def add(self, number: str, name: str, owner: str) -> None:
        """A job that an account has submitted by itself."""
        self.jobs[number], self.owner[number] = Job(name, "RUNNING"), owner


ACCOUNTS = ("anna1", "bert1", "idle1")


def manager_of(
    cluster: Cluster,
    folder: Path,
    *,
    on_report: OnReport | None = None,
    accounts: tuple[str, ...] = ACCOUNTS,
) -> BatchManager:
    settings = BatchSettings(
        processors=16,
        state_directory=folder / "lrm",
        scope="ab",
        poll_s=0.01,
        figures_s=0.01,
        accounts=accounts,
        trouble_s=0.05,
    )
    return BatchManager(
        settings, Slurm(), cluster, on_report=on_report or Witness(), clock=cluster.clock
    )


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


async def test_what_an_account_submitted_is_not_submitted_twice_because_nobody_can_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer was lost; then the agent was killed, and nobody can become the account."""
    cluster = Shared()
    manager = manager_of(cluster, tmp_path)
    second = placeholder(SECOND, "bert1", tmp_path)
    async with serving(manager):
        await manager.listing()
        submit = cluster._submit

        def submit_unheard(options: list[str]) -> Answer:
            if "--test-only" not in options:
                cluster.locked.add("bert1")  # before anybody can look
                cluster.is_deaf_to_submissions = True
            return submit(options)

        monkeypatch.setattr(cluster, "_submit", submit_unheard)
        with pytest.raises(LocalManagerError, match="gave no answer"):
            await manager.submit(second)
    monkeypatch.undo()
    cluster.is_deaf_to_submissions = False
    manager = manager_of(cluster, tmp_path)
    async with serving(manager):
        assert await manager.listing() == (Queued(claim=SECOND),), "it may be there: not gone"
        for _ in range(2):
            with pytest.raises(LocalManagerError, match="as bert1: a password") as caught:
                await manager.submit(second)
            assert caught.value.transient
        cluster.locked.clear()
        async with asyncio.timeout(90):
            while not manager.number(SECOND):
                await cluster.polls(1)
        await manager.submit(second)
        assert list(cluster.jobs) == ["1"]


async def test_an_account_that_was_taken_off_the_list_is_its_claims_trouble_alone(
    tmp_path: Path,
) -> None:
    cluster = Shared()
    manager = manager_of(cluster, tmp_path)
    async with serving(manager):
        await manager.submit(placeholder(SECOND, "bert1", tmp_path))
        cluster.jobs["1"].state = "RUNNING"
        assert await manager.listing() == (Running(claim=SECOND),)
    cluster.locked.add("bert1")  # as the shell does with one that the configuration does not name
    witness = Witness()
    manager = manager_of(cluster, tmp_path, on_report=witness, accounts=("anna1",))
    async with serving(manager):
        await manager.withdraw(SECOND)
        await cluster.polls(5)
        assert await manager.listing() == (Running(claim=SECOND),), "nobody can say that it is over"
        with pytest.raises(LocalManagerError, match="as bert1"):
            await manager.submit(placeholder(THIRD, "bert1", tmp_path))
        await manager.submit(placeholder(FIRST, "anna1", tmp_path))
        cluster.job("j1.1.0.1").state = "RUNNING"
        await witness.running(FIRST)
        assert (await manager.idle()).startable > 0


def test_claims_in_trouble_have_no_more_than_is_in_use() -> None:
    """They may have ended long ago, and would keep others out for ever."""
    figures = Figures(processors=16, idle=10, queued_jobs=0)
    for unsure, allowed, idle in ((0, 16, 10), (4, 16, 10), (4, 8, 4), (16, 16, 10), (16, 8, 2)):
        assert idle_of(figures, (), allowed=allowed, unsure=unsure).startable == idle


async def test_a_command_for_an_account_goes_behind_the_words_that_become_it() -> None:
    entry = AccountSwitch(prefix=("env", "WHO=anna1"), environment={"HOME": "/home/anna1"})
    base = {"PATH": "/usr/bin:/bin", "HOME": "/root", "TMPDIR": "/root/tmp"}
    shell = Shell(environment=base, switches={"anna1": entry})
    told = Command(argv=("sh", "-c", "echo $WHO $HOME ${TMPDIR-none}; pwd"))
    assert (await shell.run(told, "anna1")).out.split() == ["anna1", "/home/anna1", "none", "/"]
    assert (await shell.run(told)).out.split()[:2] == ["/root", "/root/tmp"]
    with pytest.raises(
        LocalManagerError, match="as bert1: the configuration does not name it any more"
    ):
        await shell.run(told, "bert1")


async def test_commands_have_the_umask_that_batch_systems_hand_on_to_jobs() -> None:
    shell = Shell(environment={"PATH": "/usr/bin:/bin"}, umask=0o137)
    assert (await shell.run(Command(argv=("sh", "-c", "umask")))).out == "0137\n"
