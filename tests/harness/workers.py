"""Groups of test modules that one worker of pytest runs.

What such modules share (a grid of real processes, the sources that were read) would else be made
by every worker. pytest-xdist has a mark for that, which goes by the ids of tests as they were
before pytest 9.2, and has no effect with later ones; so the modules are named here, and
`tests/conftest.py` gives pytest-xdist this scheduler.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = {
    "tests/daemon/notifications/test_mqtt_grid.py": "grid with a bus",
    "tests/cli/test_access.py": "grid with users",
    "tests/cli/local/test_demo.py": "demonstration",
    "tests/cli/local/test_run.py": "grid of koala run",
    "tests/cli/top/test_live.py": "grid in the terminal",
    "tests/cli/verbs/test_answers.py": "grid of the command line",
    "tests/cli/verbs/test_submissions.py": "grid of the command line",
    "tests/documents/test_pages.py": "grid of the documents",
    "tests/examples/test_frameworks.py": "grid of the frameworks",
    "tests/common/identity/test_handshakes.py": "daemon with strangers",
    "tests/live/test_client.py": "calm grid",
    "tests/live/test_files.py": "calm grid",
    "tests/live/test_mailbox.py": "grid with mailboxes",
    "tests/live/test_deadlines.py": "grid with deadlines",
    "tests/live/test_jobs.py": "calm grid",
    "tests/live/test_preflight.py": "grid with paths",
    "tests/live/test_progress.py": "grid with progress",
    "tests/tidy/test_layers.py": "sources",
    "tests/tidy/test_purity.py": "sources",
    "tests/tidy/test_tools.py": "tools",
    "tests/tidy/test_words.py": "sources",
    "tests/web/test_numbers.py": "grid of the pages",
}
"""The group of each module that has one; other tests go wherever there is time."""


BATCH = "tests/batch/"
BY_SYSTEM = (
    "fleet/test_fleet.py",
    "test_bookings.py",
    "test_contract.py",
    "test_doctor.py",
    "test_traps.py",
)
"""Modules of that folder whose tests have one batch system each, the first word of their ids."""
FILLS_FROM = 3
"""So many workers are enough that one of them begins with the quick tests."""
KNOWN_MIN = 2
"""A worker begins a test when it knows so many."""


def group_of(nodeid: str) -> str:
    """Return the group of a test; its own id where it has none. Of the tests in front of batch
    systems those of a module are one, for they share a grid, or those of a system."""
    path, _, test = nodeid.partition("::")
    if not path.startswith(BATCH):
        return TOGETHER.get(path, nodeid)
    if path.removeprefix(BATCH) in BY_SYSTEM:
        return test.partition("[")[2].partition("-")[0].rstrip("]")
    return path


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker one test after the other, and a whole group at a time.

    Slow tests stand first in the queue, and wait for processes most of their time. One of several
    workers takes from its end, so that there is work for a processor from the beginning.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        if len(self.nodes) >= FILLS_FROM and node is self.nodes[-1]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        """Return the test with which a worker died, and give the others of that worker to the rest.
        pytest-xdist would repeat it, in one new worker after the other."""
        died_with = self.under_way(node)
        if died_with is not None:
            self.assigned_work[node][group_of(died_with)][died_with] = True
        super().remove_node(node)
        return died_with

    def under_way(self, node: Any) -> str | None:
        """Return the test that a worker runs."""
        units = self.assigned_work[node].values()
        left = (nodeid for unit in units for nodeid, is_done in unit.items() if not is_done)
        return next(left, None)

    def _reschedule(self, node: Any) -> None:
        """Give a worker so much that it begins: it does so when it knows the next test, or that
        there is none. One that replaces another would wait for ever."""
        super()._reschedule(node)
        if node.shutting_down:
            return
        while self.workqueue and self._pending_of(self.assigned_work[node]) < KNOWN_MIN:
            self._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget what is done: after each test pytest-xdist counts what is left of all that the
        worker ever had, which takes a millisecond in the end."""
        nodeid = self.registered_collections[node][item_index]
        super().mark_test_complete(node, item_index, duration)
        units = self.assigned_work[node]
        scope = self._split_scope(nodeid)
        if all(units[scope].values()):
            del units[scope]
