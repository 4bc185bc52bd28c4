"""Rules for every test: seeded Hypothesis, no skip that nobody reads, long tests first.

Hypothesis is derandomised, so that a run that was green stays green until the code changes. Where
the environment says CI, a skipped test fails: a test that does not run there runs nowhere.
"""

import asyncio
import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

import grpc.aio
import pytest
import structlog
from hypothesis import HealthCheck, settings

from koala.client.background import LOOP
from tests.agent.watching import Ear
from tests.harness.collected import python_with_tests
from tests.harness.forked import FORKS, forks, say_servers
from tests.harness.launch import say_status
from tests.harness.programs import missing, packages_to_install, share_interpreters
from tests.harness.workers import Together

settings.register_profile(
    "koala",
    derandomize=True,
    deadline=None,  # shared machines stall; pytest's own limits catch what hangs
    max_examples=100,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("koala")

os.environ.setdefault(FORKS, "1")

# As the log of a daemon or agent is unless it is told otherwise. To write lines that nobody reads
# takes a tenth of a test in simulated time.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))

# A shell starts what runs behind it with Ctrl-C ignored, and all that this starts inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)

LAUNCHER_ENDS_S = 20.0
SKIPS_FAIL = os.environ.get("CI", "").lower() not in ("", "0", "false", "no")


def pytest_configure(config: pytest.Config) -> None:
    """Gives each process a folder of its own, which goes with it; looks for interpreters once for
    all workers."""
    # Daemons of tests must not be found by the user's own `koala`, nor the user's credentials by
    # tests; nor do tests take what a campaign of the user has stored.
    runtime = tempfile.mkdtemp(prefix="koala-tests-")
    for name in ("KOALA_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        os.environ[name] = runtime
    config.add_cleanup(partial(shutil.rmtree, runtime, ignore_errors=True))
    share_interpreters()
    gc.disable()  # until all modules are imported and all tests made, which stay


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Fork the workers from a process that has imported the tests."""
    if forks():
        words = config.invocation_params.args
        python = python_with_tests(words, Path(os.environ["KOALA_RUNTIME_DIR"]))
        for spec in specs:
            spec.python = python


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """Give tests that share something to one worker."""
    return Together(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    """Say how a worker ended that pytest-xdist calls crashed; its server says more."""
    if error is None:
        return
    try:
        ended = say_status(node.gateway._io.popen.wait(LAUNCHER_ENDS_S))
    except TimeoutExpired:
        ended = "still runs"
    print(f"tests: the launcher of {node.gateway.id} {ended}; {say_servers()}", file=sys.stderr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test counts as failed under CI; an expected failure (xfail) does not."""
    report = yield
    if SKIPS_FAIL and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which CI does not allow: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself while it is imported."""
    report = yield
    if SKIPS_FAIL and report.skipped:
        report.outcome = "failed"
        report.longrepr = (
            f"{collector.nodeid} was skipped, which CI does not allow: {report.longrepr}"
        )
    return report


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    """A pipe into which programs write, and whose lines a test awaits."""
    ear = Ear(tmp_path / "ear")
    yield ear
    ear.close()


@pytest.fixture(scope="session", autouse=True)
def libraries_have_begun() -> Iterator[None]:
    """Starts what a library keeps from its first use on, so that no test is the one that starts it:
    gRPC's queue, with a thread and descriptors, the loop of our clients without await, and the
    process that counts what multiprocessing shares."""

    async def begin() -> None:
        grpc.aio.init_grpc_aio()

    asyncio.run(begin())
    LOOP.run(begin())
    resource_tracker.ensure_running()
    yield
    for _ in range(2):
        grpc.aio.shutdown_grpc_aio()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says why tests are left out (of those that were skipped pytest does), and which tests run
    where the run was interrupted."""
    session = terminalreporter.config.pluginmanager.get_plugin("dsession")
    if session is not None and session.sched is not None:
        for node in session.sched.nodes:
            if (nodeid := session.sched.under_way(node)) is not None:
                terminalreporter.write_line(f"FAILED {nodeid} - had not ended")
    if leaves_root_out():
        terminalreporter.write_line("Left out: tests that need root (`-m root` as root runs them).")
    if names := missing():
        terminalreporter.write_line(f"Left out: starters under {', '.join(names)} (not found).")
    skipped = terminalreporter.stats.get("skipped", ())
    if packages := packages_to_install(str(report.longrepr) for report in skipped):
        terminalreporter.write_line(
            f"Skipped for want of packages: apt install {' '.join(packages)}"
        )


def leaves_root_out() -> bool:
    """True where tests that need root are no tests: continuous integration is root."""
    return os.geteuid() != 0 and not SKIPS_FAIL


def pytest_collection_finish() -> None:
    """Keep the garbage collector away from what stays to the end, and from short-lived objects.

    Modules and tests stay; what little is garbage among them is not worth a look at all of them.
    Tests make many objects that live for a moment; Python would collect after each 700 new ones.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Over several workers what is slow begins first, so that none ends long after the others.
    Tests that need root are no tests for anybody else."""
    if leaves_root_out():
        ours = [item for item in items if item.get_closest_marker("root") is None]
        config.hook.pytest_deselected(items=[item for item in items if item not in ours])
        items[:] = ours
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (item.get_closest_marker("slow") is None, item.path))
