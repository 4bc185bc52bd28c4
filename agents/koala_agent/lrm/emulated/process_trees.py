"""Resource usage of running claims, and the end of ended claims' processes.

One loop serves all claims with one scan of /proc a round: seldom while claims only run, often while
some are being ended. A claim that is being ended gets TERM to all its processes, KILL after
`kill_s`, and is gone when a complete scan found nothing. (An incomplete scan may miss a process
that forks and exits while /proc is being read, as a program does that becomes a daemon. On a
machine where no scan is ever complete, many in a row count as a complete one.) A script that cleans
up after its processes is killed another `kill_s` later.
"""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from koala_agent.lrm.claim_processes import (
    LiveProcess,
    ProcessIdentity,
    Scan,
    groups_of,
    kill_group,
    members,
    scan,
    send,
)

_GAP_MIN_S = 0.02
_GAP_MAX_S = 0.25
_INCOMPLETE_LOOKS_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of a claim's processes as sampled: a lower bound."""

    cpu_s: float = 0.0
    peak_memory_bytes: int = 0


@dataclass(slots=True)
class _Tree:
    known: set[ProcessIdentity]
    earlier_cpu_s: float = 0.0
    """Used by its first process for earlier claims."""
    usage: Usage = field(default_factory=Usage)
    kill_at: float | None = None
    """Instant at which TERM becomes KILL; None while the claim runs."""
    signalled: set[ProcessIdentity] = field(default_factory=set)
    script: ProcessIdentity | None = None
    """Process that cleans up when the others have ended."""
    empty_looks: int = 0
    is_gone: bool = False
    """Reported as gone; the next scan looks once more for what the kernel could not show."""


class ProcessTrees:
    """Process trees of the claims of one local manager. `gone` is called on the loop."""

    def __init__(
        self,
        *,
        scope: str,
        kill_s: float,
        sample_s: float,
        clock: Callable[[], float],
        gone: Callable[[str, Usage], None],
    ) -> None:
        self._scope = scope
        self._kill_s = kill_s
        self._sample_s = sample_s
        self._clock = clock
        self._gone = gone
        self._trees: dict[str, _Tree] = {}
        self._wake = asyncio.Event()
        self._scan_at = math.inf
        self._gap_s = _GAP_MIN_S

    def watch(self, claim: str, leader: ProcessIdentity, earlier_cpu_s: float = 0.0) -> None:
        """Sample the processes of a claim, of which `leader` is the first. It had used so much
        processor time for earlier claims."""
        self._trees[claim] = _Tree(known={leader}, earlier_cpu_s=earlier_cpu_s)
        self._scan_within(self._sample_s)

    def end(
        self, claim: str, leader: ProcessIdentity | None = None, *, is_script: bool = False
    ) -> None:
        """End all processes of a claim, also of one that was never watched; `gone` follows. A
        leader that `is_script` cleans up after the others.

        A repeated call, when the leader has exited, only triggers a scan at once.
        """
        tree = self._trees.get(claim)
        if tree is None:
            tree = self._trees[claim] = _Tree(known=set() if leader is None else {leader})
        if tree.kill_at is None:
            tree.kill_at = self._clock() + self._kill_s
            tree.script = leader if is_script else None
        self._gap_s = _GAP_MIN_S
        self._scan_within(0.0)

    def end_empty(self, claim: str) -> None:
        """End a claim whose starter has seen the end of all its descendants: `gone` is called now,
        and the next scan ends what carries the claim's name without being one of them."""
        tree = self._trees.setdefault(claim, _Tree(known=set()))
        tree.is_gone = True
        tree.known = set()
        tree.kill_at = self._clock() + self._kill_s
        self._scan_within(self._sample_s)
        self._gone(claim, tree.usage)

    async def run(self) -> None:
        """Scan without end, until cancelled."""
        while True:
            left_s = self._scan_at - self._clock()
            if left_s > 0:
                self._wake.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(left_s if left_s < math.inf else None):
                        await self._wake.wait()
                continue
            self._scan_at = math.inf
            # Leave out what happens during the scan: claims whose end is ordered may have forked
            # since, and the starter of a new one may have been seen as that of its former claim.
            watched = set(self._trees)
            judged = {claim for claim, tree in self._trees.items() if tree.kill_at is not None}
            self._handle_scan(await asyncio.to_thread(scan), watched, judged)
            self._scan_within(self._pause_s())
            # A burst of ends shares a scan: at most one each gap.
            await asyncio.sleep(_GAP_MIN_S)

    def _scan_within(self, pause_s: float) -> None:
        """Scan this many seconds from now, if no earlier scan is due."""
        at = self._clock() + pause_s
        if at < self._scan_at:
            self._scan_at = at
            self._wake.set()

    def _pause_s(self) -> float:
        """Return the seconds until the next scan when nothing happens."""
        if not self._trees:
            return math.inf
        deadlines = [
            tree.kill_at
            for tree in self._trees.values()
            if tree.kill_at is not None and (tree.known or not tree.is_gone)
        ]
        if not deadlines:
            return self._sample_s
        self._gap_s = min(self._gap_s * 1.5, _GAP_MAX_S)
        until_kill_s = min(at - self._clock() for at in deadlines)
        return min(self._gap_s, until_kill_s) if until_kill_s > 0 else self._gap_s

    def _handle_scan(self, found_now: Scan, watched: set[str], judged: set[str]) -> None:
        """Handle a scan of the claims that were `watched` when it began; of these it may find that
        those `judged` are gone."""
        # A claim that became empty during the scan: its starter, seen then, may serve another now.
        trees = {
            claim: tree
            for claim, tree in self._trees.items()
            if claim in judged or (claim in watched and not tree.is_gone)
        }
        known = {claim: tree.known for claim, tree in trees.items()}
        live = members(found_now.seen, known, scope=self._scope)
        for claim, tree in trees.items():
            _observe(tree, live[claim])
        for claim in sorted(judged):
            tree = self._trees[claim]
            tree.empty_looks = 0 if tree.known else tree.empty_looks + 1
            is_empty = tree.empty_looks > (0 if found_now.is_complete else _INCOMPLETE_LOOKS_MAX)
            if is_empty:
                del self._trees[claim]
                if not tree.is_gone:
                    self._gone(claim, tree.usage)
            elif tree.known:
                self._signal(tree, live[claim], found_now.seen)
            else:
                self._scan_within(0.0)

    def _signal(
        self, tree: _Tree, processes: tuple[LiveProcess, ...], seen: tuple[LiveProcess, ...]
    ) -> None:
        assert tree.kill_at is not None
        if self._clock() >= tree.kill_at:
            is_last = self._clock() >= tree.kill_at + self._kill_s
            ended = tuple(p for p in processes if is_last or not _is_cleaning_up(p, tree))
            for group in groups_of(ended, seen):
                with suppress(PermissionError):
                    kill_group(group)
            _send_all((process.identity for process in ended), signal.SIGKILL)
        else:
            _send_all(tree.known - tree.signalled, signal.SIGTERM)
            tree.signalled |= tree.known


def _is_cleaning_up(process: LiveProcess, tree: _Tree) -> bool:
    """Test for the script itself, or a process that it has started since TERM was sent to all."""
    if tree.script is None:
        return False
    is_new = process.group == tree.script.pid and process.identity not in tree.signalled
    return is_new or process.identity == tree.script


def _send_all(identities: Iterable[ProcessIdentity], number: signal.Signals) -> None:
    for identity in sorted(identities):
        # We may not end processes of another user (sudo); they keep the processors.
        with suppress(PermissionError):
            send(identity, number)


def _observe(tree: _Tree, processes: tuple[LiveProcess, ...]) -> None:
    tree.known = {process.identity for process in processes}
    tree.usage = Usage(
        cpu_s=max(
            tree.usage.cpu_s, sum(process.cpu_s for process in processes) - tree.earlier_cpu_s
        ),
        peak_memory_bytes=max(
            tree.usage.peak_memory_bytes, sum(process.memory_bytes for process in processes)
        ),
    )
