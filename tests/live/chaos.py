"""The campaign of faults on real processes: co-allocated jobs stream through while parts fail.

    make chaos                                      1,000 jobs, at least 200 kills
    make chaos ARGS="--short"                       what continuous integration runs
    make chaos ARGS="--minutes 20 --intensity 4"    for so long, with four times as many faults
    make chaos ARGS="--faults kill-both --kills 50 --jobs 50"

A daemon and four agents run behind a proxy. Jobs are submitted through it under idempotency keys,
each key more than once; meanwhile what a seed draws goes wrong (`faults`): SIGKILL and SIGSTOP of
daemon, agents, starters and the relay, connections that are cut, half-open or slow, a full disk
under the journal (as root, who may mount a small one). Then faults stop, and what must hold is
looked at from outside: each accepted job is there once, has ended as it must, and has run to its
end exactly once; what watchers were told has no gap; and nothing is left, at the daemon or at any
site. A part that ends by itself while its disk has room is a failure, too.

The seed draws the schedule; what it meets depends on the machine. On a failure the exit status is 1
and the state folders stay.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from koala.client import TERMINAL_PHASES, AsyncClient, AsyncJobHandle, Submission
from koala.common.identity.credentials import find_credentials
from koala.core.model.job import EndKind
from koala.errors import ExhaustedError, KoalaError, UnreachableError
from tests.cli.command import koala_here
from tests.harness.moments import moment, until
from tests.harness.small_disk import small_disk
from tests.live.evidence import Evidence
from tests.live.faults import Account, Kind, Saboteur, draw
from tests.live.grid import CALM, started
from tests.live.leftovers import leftovers, placeholders
from tests.live.proxied import DISK_MB, ProxiedGrid, proxied

SITES = {"delft": 4, "leiden": 4, "vu": 4, "utrecht": 6}
PARAMETERS: dict[str, Any] = {
    **CALM,
    # Leases that mostly outlast a fault, and now and then do not.
    "hold_lease_s": 6.0,
    "run_lease_s": 8.0,
    "late_max_s": 2.0,
    "pause_max_s": 3.0,
    "kill_s": 1.0,
    # A site that was disturbed is not left alone for longer than the campaign, nor a job given up.
    "probe_after_s": 3.0,
    "claiming_tries_max": 0,
    "blocked_max": 1_000_000,
}
SILENCE_S = 3.0
AT_ONCE = 10
"""Jobs that are not over yet; the next one waits."""
SETTLE_S = 420.0
"""How long it may take, when faults have stopped, until all jobs are over, and again until nothing
is left."""
INPUT = "input.dat"
INPUT_BYTES = 400_000
OUTPUT = "result"
EXIT_S = 1.0
"""How long a busy machine may take from a program's line that it is at its end until its starter
has seen that nothing of it is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Set length, number and kinds. Jobs are submitted until all of `jobs`, `kills` and `minutes`
    are reached; `kinds` are the faults that there may be."""

    seed: int = 0
    jobs: int = 1000
    kills: int = 200
    minutes: float = 0.0
    intensity: float = 1.0
    kinds: tuple[Kind, ...] = tuple(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A job of the campaign: what is submitted, and how it is to end."""

    key: str
    rsl: str
    parts: int
    processes: int
    is_failing: bool
    has_output: bool
    is_cancelled_after_s: float | None


@dataclass(slots=True)
class Course:
    """Collect the outcome."""

    seed: int
    seconds: float = 0.0
    jobs: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    ran_again: int = 0
    known_again: int = 0
    account: Account = field(default_factory=Account)
    broken: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """For --json."""
        account = self.account
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "jobs": self.jobs,
            "ends": dict(self.ends),
            "attempts": self.attempts,
            "ran_again": self.ran_again,
            "known_again": self.known_again,
            "kills": account.kills,
            "killed_together": account.together,
            "faults": dict(account.faults),
            "passed_over": account.passed_over,
            "ended_on_full_disk": account.ended_on_full_disk,
            "broken": self.broken,
        }

    @contextmanager
    def expecting(self, what: str) -> Iterator[None]:
        """Note what does not hold in the block, and go on with the next."""
        try:
            yield
        except (AssertionError, TimeoutError, KoalaError, OSError, sqlite3.Error) as error:
            self.broken.append(f"{what}: {str(error) or type(error).__name__}")


class Campaign:
    """One run over a grid that is up."""

    def __init__(self, grid: ProxiedGrid, plan: Plan, *, has_own_disk: bool) -> None:
        self.course = Course(plan.seed)
        self._grid = grid
        self._plan = plan
        self._has_own_disk = has_own_disk
        self._orders: dict[str, Order] = {}
        self._cancelled: set[str] = set()
        self._phases: dict[str, str] = {}
        self._over: dict[str, asyncio.Event] = {}
        self._is_calm = asyncio.Event()

    async def run(self) -> None:
        """All of it; what does not hold is in `course.broken`."""
        began_at = time.monotonic()
        grid, plan = self._grid, self._plan
        far = AsyncClient(grid.far_address, credentials=await self._credentials())
        async with proxied(grid) as proxy, grid.client() as near, far:
            await grid.ready(near)
            saboteur = Saboteur(grid, proxy, has_own_disk=self._has_own_disk)
            self.course.account = saboteur.account
            async with asyncio.TaskGroup() as group:
                helpers = [
                    group.create_task(saboteur.supervise()),
                    group.create_task(self._watch(near, saboteur)),
                    group.create_task(self._tell(began_at)),
                ]
                async with asyncio.TaskGroup() as work:
                    spoiling = work.create_task(self._spoil(saboteur))
                    await self._submit_all(far, began_at)
                    await spoiling
                with self.course.expecting("end of all jobs"):
                    await self._settle(near)
                for helper in helpers:
                    helper.cancel()
            await self._look(near)
        self.course.seconds = time.monotonic() - began_at
        assert plan.kills <= saboteur.account.kills or self.course.broken

    async def _credentials(self) -> Any:
        """Those that the daemon leaves for its own user."""
        await until(lambda: find_credentials(self._grid.address) is not None, SETTLE_S)
        return find_credentials(self._grid.address)

    # --- faults -----------------------------------------------------------------------------------

    async def _spoil(self, saboteur: Saboteur) -> None:
        """Do the faults that the seed draws, until it is calm again; then all faults have ended."""
        random = Random(f"{self._plan.seed}/faults")
        async with asyncio.TaskGroup() as group:
            while not self._is_calm.is_set():
                fault = draw(
                    random,
                    sites=self._grid.sites,
                    kinds=self._plan.kinds,
                    intensity=self._plan.intensity,
                )
                with suppress(TimeoutError):
                    async with asyncio.timeout(fault.after_s):
                        await self._is_calm.wait()
                        break
                group.create_task(saboteur.do(fault))

    # --- jobs -------------------------------------------------------------------------------------

    async def _submit_all(self, client: AsyncClient, began_at: float) -> None:
        """One job after the other, as soon as few enough are not over; until there were enough
        jobs, kills and minutes."""
        places = asyncio.Semaphore(AT_ONCE)
        number = 0
        async with asyncio.TaskGroup() as group:
            while (
                number < self._plan.jobs
                or self.course.account.kills < self._plan.kills
                or time.monotonic() < began_at + 60 * self._plan.minutes
            ):
                await places.acquire()
                order = self._order(number)
                task = group.create_task(self._see_through(client, order, number))
                task.add_done_callback(lambda _: places.release())
                number += 1
            self._is_calm.set()  # what is not over yet ends without further faults

    async def _see_through(self, client: AsyncClient, order: Order, number: int) -> None:
        random = Random(f"{self._plan.seed}/submission/{number}")
        job = await submit_surely(client, order.rsl, key=order.key)
        if job in self._orders:
            self.course.broken.append(f"{job} is the job of {order.key} and of another key")
        self._orders[job] = order
        self.course.jobs += 1
        if random.random() < 0.2 and await submit_surely(client, order.rsl, key=order.key) != job:
            self.course.broken.append(f"{order.key} gave another job than {job} the second time")
        if order.is_cancelled_after_s is not None:
            await moment(order.is_cancelled_after_s)
            await self._cancel(client, job)
        over = self._over.setdefault(job, asyncio.Event())
        while not over.is_set() and not self._is_calm.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await over.wait()

    async def _cancel(self, client: AsyncClient, job: str) -> None:
        while True:
            with suppress(UnreachableError, ExhaustedError):
                (answer,) = await client.cancel(job)
                if not answer["error"] and answer["phase"] not in ("Finished", "Failed"):
                    self._cancelled.add(job)
                return
            await moment(0.1)

    def _order(self, number: int) -> Order:
        """Jobs of two and three components; some read a file, write one, fail, are cancelled."""
        random = Random(f"{self._plan.seed}/job/{number}")
        evidence = self._grid.evidence
        counts = [random.randint(1, 2) for _ in range(random.randint(2, 3))]
        seconds = random.uniform(0.0, 1.5) if random.random() < 0.9 else random.uniform(2.0, 6.0)
        share = random.random()
        is_failing, has_output, reads = share < 0.05, 0.05 <= share < 0.2, 0.2 <= share < 0.3
        parts = [
            evidence.component(
                count=count,
                seconds=seconds,
                status=3 if is_failing and part == 0 else 0,
                output=OUTPUT if has_output else "",
                site=random.choice(self._grid.sites) if random.random() < 0.1 else "",
                more=f"(label=part{part})(maxWallTime=10)",
            )
            for part, count in enumerate(counts)
        ]
        more = "(priority=high)" if random.random() < 0.3 else ""
        more += f"(inputFile={INPUT})" if reads else ""
        cancelled_after_s = random.uniform(0.0, 3.0) if 0.3 <= share < 0.36 else None
        return Order(
            key=f"chaos-{self._plan.seed}-{number}",
            rsl=evidence.job(*parts, more=more),
            parts=len(parts),
            processes=sum(counts),
            is_failing=is_failing,
            has_output=has_output,
            is_cancelled_after_s=cancelled_after_s,
        )

    # --- watching ---------------------------------------------------------------------------------

    async def _watch(self, client: AsyncClient, saboteur: Saboteur) -> None:
        """Every notice from the first one on, over all lives of the daemon. Until cancelled."""
        last = 0
        async for notice in client.watch(after=0):
            number, job, phase = notice["number"], notice["job"], notice["phase"]
            if number != last + 1:
                self.course.broken.append(f"a watcher was told {number} after {last}")
            last = number
            saboteur.heard("daemon")
            if notice["site"] and notice["text"].startswith("connected"):
                saboteur.heard(notice["site"])
            if not job or not phase:
                continue
            before = self._phases.get(job)
            if before in TERMINAL_PHASES and phase != before:
                self.course.broken.append(f"{job} was {before}, and then {phase}")
            self._phases[job] = phase
            if phase in TERMINAL_PHASES:
                self._over.setdefault(job, asyncio.Event()).set()

    async def _tell(self, began_at: float) -> None:
        """Show the progress, on a terminal each second, elsewhere each half minute."""
        is_terminal = sys.stderr.isatty()
        while True:
            await moment(1.0 if is_terminal else 30.0)
            over = sum(event.is_set() for event in self._over.values())
            account = self.course.account
            said = (
                f"{time.monotonic() - began_at:5.0f} s  {self.course.jobs} jobs, {over} over,"
                f" {account.faults.total()} faults, {account.kills} kills,"
                f" {len(self.course.broken)} broken"
            )
            print(
                f"\r{said}" if is_terminal else said,
                end="" if is_terminal else "\n",
                file=sys.stderr,
                flush=True,
            )

    # --- the end ----------------------------------------------------------------------------------

    async def _settle(self, client: AsyncClient) -> None:
        """All parts are there, and all jobs come to their end."""
        async with asyncio.timeout(SETTLE_S):
            # On probation a site stays until a job comes, and there may be none any more.
            await self._grid.ready(client, states=("usable", "probing"))
            try:
                for event in list(self._over.values()):
                    await event.wait()
            except asyncio.CancelledError:
                for job in [job for job, event in self._over.items() if not event.is_set()]:
                    shown = await client.show(job)
                    why = (await client.why(job))["why"]
                    self.course.broken.append(f"{job} is still {shown['phase']}: {why}")
                raise

    async def _look(self, client: AsyncClient) -> None:
        """Check what must hold now."""
        course = self.course
        with course.expecting("jobs"):
            await self._check_jobs(client)
        with course.expecting("keys"):
            await self._check_keys(client)
        with course.expecting("evidence"):
            self._grid.evidence.check()
        with course.expecting("rest"):
            await self._grid.at_rest(client)
            await self._grid.idle(client, sum(self._grid.processors.values()))
            sites = await client.sites()
            idle = {site["site"]: site["idle"] for site in sites}
            assert idle == dict(self._grid.processors), idle
        with course.expecting("leftovers"):
            deadline_at = time.monotonic() + SETTLE_S
            while (left := leftovers(self._grid)) and time.monotonic() < deadline_at:
                await moment(0.5)
            assert left == [], left
        course.broken += [
            f"{name} ended by itself with status {status}" for name, status in course.account.ended
        ]

    def look_at_files(self) -> None:
        """Check what must hold when all parts have ended in order."""
        with self.course.expecting("placeholders"):
            left = placeholders(self._grid)
            assert left == [], left
        with self.course.expecting("replay"):
            run = koala_here("replay", str(self._grid.state / "daemon"), "--json")
            assert run.returncode == 0, run.stderr
            told = {job["job"]: job["phase"] for job in json.loads(run.stdout)["jobs"]}
            assert told == {job: self._phases.get(job) for job in self._orders}, told

    async def _check_jobs(self, client: AsyncClient) -> None:
        course = self.course
        listed = {job["job"]: job["phase"] for job in await client.list_jobs()}
        if set(listed) != set(self._orders):
            lost = sorted(set(self._orders) - set(listed))
            foreign = sorted(set(listed) - set(self._orders))
            course.broken.append(f"accepted and not there: {lost}; there twice: {foreign}")
        claims = (await client.report("claim"))["rows"]
        for job, order in self._orders.items():
            with course.expecting(job):
                shown = await client.show(job)
                course.ends[shown["phase"]] += 1
                course.attempts += shown["attempts"]
                assert self._phases.get(job) == shown["phase"], f"watched {self._phases.get(job)}"
                self._check_job(
                    job, order, shown.document, [row for row in claims if row["job"] == job]
                )
                if shown["phase"] == "Finished" and order.has_output:
                    await self._check_output(job, shown["attempts"], order.parts)

    def _check_job(
        self, job: str, order: Order, shown: Mapping[str, Any], claims: Sequence[dict[str, Any]]
    ) -> None:
        """Check how it ended, and that it ran to its end exactly once."""
        course = self.course
        phase, reason = shown["phase"], shown["reason"]
        allowed = {"Failed"} if order.is_failing else {"Finished"}
        if order.is_cancelled_after_s is not None:
            allowed = {"Cancelled"} if job in self._cancelled else {*allowed, "Cancelled"}
        assert phase in allowed, f"{phase} ({reason}), expected {' or '.join(sorted(allowed))}"
        if phase == "Failed":
            assert "3" in reason, f"failed for {reason!r}"
        elif phase == "Finished":
            evidence, processes = self._grid.evidence, order.processes
            excused = unheard(evidence, job, claims, course.account)
            last = evidence.finished(job, processes=processes, excused=excused)
            course.ran_again += len(evidence.whole(job, processes)) - 1
            assert last == shown["attempts"], f"ran to its end in attempt {last}"

    async def _check_output(self, job: str, attempt: int, parts: int) -> None:
        """Check that the last attempt's output is published, whole."""
        folder = self._grid.spool / job / "output"
        files = [folder / f"part{part}" / OUTPUT for part in range(parts)]
        await until(lambda: all(file.exists() for file in files), SETTLE_S)
        for file in files:
            found = file.read_text(encoding="ascii")
            assert found == f"{job} {attempt}\n", f"{file} has {found!r}"

    async def _check_keys(self, client: AsyncClient) -> None:
        """Each key once more: the same job, known before."""
        again = [Submission(rsl=order.rsl, key=order.key) for order in self._orders.values()]
        answers = await client.submit_many(again, retry_for_s=SETTLE_S)
        for job, answer in zip(self._orders, answers, strict=True):
            assert isinstance(answer, AsyncJobHandle), f"{job} submitted again: {answer}"
            assert (answer.job, answer.is_known) == (job, True), f"{job} again: {answer}"
            self.course.known_again += 1


async def submit_surely(client: AsyncClient, rsl: str, *, key: str) -> str:
    """The daemon may be killed before, while or after it takes a job in, or have no room for it;
    the key makes them one."""
    while True:
        with suppress(UnreachableError, ExhaustedError):
            return (await client.submit(rsl, key=key)).job
        await moment(0.1)


def unheard(
    evidence: Evidence, job: str, claims: Iterable[dict[str, Any]], account: Account
) -> set[int]:
    """Attempts of a job that may have ended without anybody's knowing, by what was done to them and
    by what the daemon reports of its claims. A starter of them was killed; a site was cut off for
    longer than its lease; or a claim was stopped, or its lease ended, when its program had just
    written its end: before its starter could see it, also because that stood still.
    """
    found = {attempt for name, attempt in account.bereft if name == job}
    for row in claims:
        claim, end = row["claim"], row["end"]
        _, attempt, component, _ = claim.split("/")
        if end == EndKind.FENCED:
            found.add(int(attempt))
        elif end in (EndKind.STOPPED, EndKind.LEASE):
            over_at = evidence.over_at(job, int(attempt), int(component))
            still = account.stood_still.get(claim, ())
            stood_still = any(since - EXIT_S < over_at < until for since, until in still)
            if stood_still or over_at > row["ended_at"] - EXIT_S:
                found.add(int(attempt))
    return found


# --- the command ----------------------------------------------------------------------------------


def campaign(folder: Path, plan: Plan) -> Course:
    """A grid in this folder, and the campaign over it."""
    with ExitStack() as stack:
        has_own_disk = os.geteuid() == 0
        if has_own_disk:
            (folder / "state").mkdir(parents=True)
            stack.enter_context(small_disk(folder / "state" / "daemon", megabytes=DISK_MB))
        grid = ProxiedGrid(folder, sites=SITES, parameters=PARAMETERS, silence_s=SILENCE_S)
        grid.patience_s = SETTLE_S
        for site in grid.sites[:2]:
            grid.store(site).mkdir(parents=True, exist_ok=True)
            (grid.store(site) / INPUT).write_bytes(Random(plan.seed).randbytes(INPUT_BYTES))
        run = Campaign(grid, plan, has_own_disk=has_own_disk)
        try:
            with started(grid):
                asyncio.run(run.run())
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told with the rest
            error.__notes__ = []  # the logs stay
            run.course.broken.append("".join(traceback.format_exception(error)))
        run.look_at_files()
        if run.course.broken and has_own_disk:
            shutil.copytree(grid.state / "daemon", grid.state / "daemon-kept", dirs_exist_ok=True)
    return run.course


def tell(course: Course) -> str:
    """The result for people."""
    account = course.account
    ends = ", ".join(f"{count} {phase}" for phase, count in sorted(course.ends.items()))
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(account.faults.items()))
    lines = [
        f"seed {course.seed}: {course.jobs} jobs in {course.seconds:.0f} s ({ends}),"
        f" {course.attempts} attempts",
        f"{account.kills} kills, {account.together} times two within 10 ms; faults: {faults}",
        f"{account.ended_on_full_disk} ends on a full disk; {course.known_again} keys known again;"
        f" {course.ran_again} attempts that ended while nobody could tell",
    ]
    if course.broken:
        return "\n".join([*lines, f"BROKEN, {len(course.broken)}:", *course.broken])
    return "\n".join([*lines, "nothing was lost, nothing ran twice, nothing is left"])


def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.live.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--intensity", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="drawn when not given")
    parser.add_argument("--short", action="store_true", help="60 jobs, at least 12 kills")
    parser.add_argument("--faults", nargs="+", choices=list(Kind), default=list(Kind), type=Kind)
    parser.add_argument("--json", action="store_true", help="the result on standard output")
    parser.add_argument("--folder", type=Path, help="where logs and journal stay")
    options = parser.parse_args(words)
    plan = Plan(
        seed=secrets.randbelow(1_000_000) if options.seed is None else options.seed,
        jobs=60 if options.short else options.jobs,
        kills=12 if options.short else options.kills,
        minutes=options.minutes,
        intensity=options.intensity,
        kinds=tuple(options.faults),
    )
    # So that all is ended and put away, also of a run that a shell has started behind itself.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    print(f"seed {plan.seed}", file=sys.stderr)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="koala-chaos-"))
    course = campaign(folder, plan)
    if options.json:
        print(json.dumps(course.document(), indent=2))
    print(tell(course), file=sys.stderr if options.json else sys.stdout)
    if course.broken:
        print(f"state folders and logs are in {folder}", file=sys.stderr)
    elif options.folder is None:
        shutil.rmtree(folder)
    return 1 if course.broken else 0


if __name__ == "__main__":
    sys.exit(main())
