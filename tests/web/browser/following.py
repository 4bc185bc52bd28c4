"""`python -m tests.web.browser.following [--minutes 60]`: how open pages follow a grid.

A real Chromium has the grid, the list of jobs and one job's page open while jobs come and end. The
daemon's instant of each change of a phase is that of its notice; the page's is noted by an observer
in the page itself, whose clock is the same machine's. Memory is that of the browser's processes for
pages.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

import psutil
from playwright.sync_api import expect

from koala.client import Client
from koala.common.runtime.child_lifetime import ended_in_order
from koala.errors import KoalaError
from tests.bench.figures import Figure, percentile, table
from tests.cli.grids import up
from tests.web.browser.stage import LIMIT_MS, chromium, page_of, web_process

JOBS_A_MINUTE = 50
SINGLE_EVERY = 10
"""A job in so many has its own page open."""
RUNS = "&(executable=/bin/sleep)(arguments=4)(count=1)(name=long-name-of-a-job)"
ENDS = ("Finished", "Failed", "Cancelled")
MEMORY_MAX_MB = 150.0
DELAY_MAX_S = 1.0
MB = 1_000_000
OBSERVER = """
window.koalaShown = {};
const note = (job, phase) => {
  const key = `${job} ${phase}`;
  if (!(key in window.koalaShown)) window.koalaShown[key] = Date.now() / 1000;
};
new MutationObserver(() => {
  for (const row of document.querySelectorAll("[data-job]"))
    note(row.dataset.job, row.querySelector(".phase")?.textContent);
  const own = location.pathname.match(/\\/jobs\\/(j\\d+)$/);
  const phase = document.querySelector("h1 .phase");
  if (own && phase) note(own[1], phase.textContent);
}).observe(document, { childList: true, subtree: true, characterData: true });
"""
"""Notes the instant at which a page first shows a job in a phase."""

Instants: TypeAlias = dict[str, dict[str, float]]
"""First instant of each phase, by job and phase."""


class ToldPhases:
    """The daemon's notices: when each job was first in each phase."""

    def __init__(self, client: Client) -> None:
        self.phases: Instants = {}
        self._client = client
        self._changed = threading.Condition()
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._has_begun.wait()

    def _read(self) -> None:
        try:
            for notice in self._client.watch(is_marked=True):
                self._has_begun.set()
                if notice.job and notice.phase:
                    phases = self.phases.setdefault(notice.job, {})
                    with self._changed:
                        phases.setdefault(notice.phase, notice.at.timestamp())
                        self._changed.notify_all()
        except (KoalaError, CancelledError):
            pass  # the client was closed
        finally:
            self._has_begun.set()

    def until_over(self, job: str) -> str:
        """Wait for the end of a job and return its last phase."""
        with self._changed:
            is_over = self._changed.wait_for(
                lambda: any(end in self.phases.get(job, ()) for end in ENDS), LIMIT_MS / 1_000
            )
        assert is_over, f"the daemon has not told the end of {job}"
        return next(end for end in ENDS if end in self.phases[job])


@dataclass(slots=True, kw_only=True)
class Watched:
    """A page that was opened at an instant, and what it has shown since then."""

    page: Any
    opened_at: float
    shown: Instants = field(default_factory=dict)

    def take(self) -> None:
        """Take over what the observer in the page has noted, which the page then forgets."""
        assert self.page.evaluate("window.koalaWasKept"), "the page was loaded again"
        found = self.page.evaluate(
            "() => { const found = window.koalaShown; window.koalaShown = {}; return found; }"
        )
        for key, at in found.items():
            job, _, phase = key.partition(" ")
            self.shown.setdefault(job, {}).setdefault(phase, at)

    def follows(self, told: Instants) -> tuple[list[float], int]:
        """Seconds from each change at the daemon to the page that shows it; and how many changes
        it has not shown.

        A phase that is over before the page's next round is never shown; the next one counts then.
        """
        delays, missed = [], 0
        for job, phases in told.items():
            shown = self.shown.get(job, {})
            for place, at in enumerate(phases.values()):
                if at < self.opened_at:
                    continue
                later = [shown[phase] for phase in list(phases)[place:] if phase in shown]
                delays += [min(later) - at] if later else []
                missed += not later
        return delays, missed


def opened(page: Any, address: str) -> Watched:
    """Open a page, and wait until it is live."""
    page.goto(address)
    expect(page.locator("#link")).to_have_text("live", timeout=LIMIT_MS)
    page.evaluate("window.koalaWasKept = true")
    return Watched(page=page, opened_at=page.evaluate("Date.now() / 1000"))


def renderers() -> dict[int, int]:
    """Memory of the pages' processes that belongs to them alone, by process id."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # jobs are children, too, and end meanwhile
            if "--type=renderer" in process.cmdline():
                found[process.pid] = int(process.memory_full_info().uss)
    return found


def follow(folder: Path, jobs: int) -> list[Figure]:
    """Run so many jobs at an even pace with pages open: how late these show each change."""
    with (
        up(folder) as grid,
        web_process(folder, grid.address) as web,
        chromium() as browser,
        page_of(browser, web) as page,
        Client(grid.address) as client,
    ):
        page.context.add_init_script(OBSERVER)
        told_phases = ToldPhases(client)
        listed = opened(page, f"{web.address}/jobs")
        whole = opened(page.context.new_page(), f"{web.address}/")
        single = page.context.new_page()
        alone: dict[str, Watched] = {}
        largest, begun, job = 0, monotonic(), ""
        for number in range(jobs):
            pause_s = begun + number * 60.0 / JOBS_A_MINUTE - monotonic()
            page.wait_for_timeout(max(0.0, pause_s) * 1_000)
            job = client.submit(RUNS).job
            if number % SINGLE_EVERY == 0:
                _see_the_end(told_phases, alone)
                alone[job] = opened(single, f"{web.address}/jobs/{job}")
                listed.take()
                whole.take()
                largest = max(largest, *renderers().values())
                sys.stderr.write(f"\r{number} jobs, largest page {largest / MB:.0f} MB")
        sys.stderr.write("\n")
        _see_the_end(told_phases, alone)
        last = told_phases.until_over(job)
        expect(page.locator(f"[data-job={job}]")).to_contain_text(last, timeout=LIMIT_MS)
        listed.take()
        whole.take()
        largest = max(largest, *renderers().values())
        minutes = (monotonic() - begun) / 60
        told = told_phases.phases
        alive = {job: _without_ends(phases) for job, phases in told.items()}
        found = {
            "list of jobs": [listed.follows(told)],
            "grid": [whole.follows(alive)],
            "job's page": [one.follows({job: told[job]}) for job, one in alone.items()],
        }
        figures = []
        for name, several in found.items():
            delays = [delay for one, _ in several for delay in one]
            assert delays, f"{name}: no change was shown"
            how = f"{len(delays)} changes of {jobs} jobs, from the instant of the daemon's notice"
            shares = {"p50": 0.5, "p99": 0.99, "longest": 1.0}
            for word, share in shares.items():
                limit = DELAY_MAX_S if word == "p99" else None
                value = percentile(delays, share)
                figures.append(
                    Figure(name=f"{name}: delay, {word}", value=value, unit="s", limit=limit,
                           how=how)
                )  # fmt: skip
            missed = sum(number for _, number in several)
            figures.append(
                Figure(
                    name=f"{name}: changes not shown",
                    value=missed,
                    unit="",
                    limit=None if name == "grid" else 0,  # a job may end between two rounds
                    how=how,
                )
            )
        how = f"of the browser's process for it alone, the largest seen in {minutes:.0f} min"
        figures.append(
            Figure(name="memory of the largest page", value=largest / MB, unit="MB",
                   limit=MEMORY_MAX_MB, how=how)
        )  # fmt: skip
        return figures


def _see_the_end(told_phases: ToldPhases, alone: Mapping[str, Watched]) -> None:
    """Wait until the newest page of a single job shows its end, and take over what it has shown."""
    for job in list(alone)[-1:]:
        heading = alone[job].page.get_by_role("heading", level=1)
        expect(heading).to_contain_text(told_phases.until_over(job), timeout=LIMIT_MS)
        alone[job].take()


def _without_ends(phases: Mapping[str, float]) -> dict[str, float]:
    """Leave out last phases: the grid has jobs under way only."""
    return {phase: at for phase, at in phases.items() if phase not in ENDS}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.web.browser.following",
                                     description=__doc__)  # fmt: skip
    parser.add_argument("--minutes", type=float, default=5.0, help="how long pages are open (5)")
    options = parser.parse_args()
    sys.stderr.write(f"open pages (load average {os.getloadavg()[0]:.1f})\n")
    with tempfile.TemporaryDirectory(prefix="koala-pages-") as folder:
        figures = follow(Path(folder), round(options.minutes * JOBS_A_MINUTE))
    print(table(figures), end="")
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    with ended_in_order():
        sys.exit(main())
