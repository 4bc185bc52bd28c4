"""Runs on the user's own sites: workers of dask.distributed as components of a job of Koala.

The components have no barrier, and one of them is enough for the job to start (quorum), so that
runs begin with the first processor. The scheduler of Dask is a thread of this process. However this
process ends, its connections end with it, and workers leave when theirs is lost.

All connections are TLS with a certificate of this sweep alone, which both sides must have. Workers
get it in their environment: who reached an open scheduler could run programs as its user.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from koala.errors import ConfigError, KoalaError
from koala.lab.sim.campaign.on_dask import Dask
from koala.lab.sim.campaign.records import Timed
from koala.lab.sim.replication import Each, Progress, Replications

if TYPE_CHECKING:
    from distributed import Security

    from koala.client.sync import Client, JobHandle

Item = TypeVar("Item")
One = TypeVar("One", bound=Timed)
NAME = "sweep-workers"
WORKERS_MAX = 64
"""Workers of a sweep that names no number."""
WALL_TIME = "8h"
"""Limit of a worker: the last resort if neither this process nor its connection ended it."""
FIRST_S = 600.0
"""Time in which the first worker comes, or the sweep is given up."""
LEAVE_S = 60.0
"""Time in which the job ends after it was cancelled."""
TURN_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class OnKoala:
    """Engine of Koala's sites. `workers` is the number of components, 0 for one for each idle
    processor; `python` the interpreter at the sites, which has the same Koala."""

    workers: int = 0
    python: str = sys.executable

    def __call__(
        self,
        run: Callable[[Item], One],
        items: Sequence[Item],
        *,
        progress: Progress,
        each: Each[Item, One],
    ) -> Replications[Item, One]:
        """Run the items. Raises ConfigError if no worker can be had, KoalaError if the job of the
        workers ends before all items have run."""
        if not items:
            return Replications(finished=())
        from koala.client.sync import Client  # noqa: PLC0415 - not for other engines

        with Client() as client, _scheduler(client.address) as scheduler:
            count = min(self.workers or _idle(client), len(items))
            with _job(client, scheduler, self.python, count) as job:
                try:
                    scheduler.await_worker(job)
                except KeyboardInterrupt:
                    return Replications(finished=(), is_interrupted=True)
                with scheduler.ending_with(job) as ended:
                    try:
                        engine = Dask(address=scheduler.address, security=scheduler.security)
                        return engine(run, items, progress=progress, each=each)
                    except KoalaError as error:
                        if not ended:
                            raise
                        raise KoalaError(
                            f"--on koala: {ended[0]}: the same command goes on after the runs that"
                            " are stored"
                        ) from error


@dataclass(frozen=True, slots=True)
class _Scheduler:
    """A scheduler of Dask in a thread of this process."""

    cluster: Any
    security: Security

    @property
    def address(self) -> str:
        """Return HOST:PORT."""
        return str(self.cluster.scheduler_address).removeprefix("tls://")

    @property
    def worker_environment(self) -> dict[str, str | float]:
        """Return the variables with which a worker of Dask has the certificate and its key."""
        given = self.security.get_tls_config_for_role("worker")
        return {
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": given["ca_file"],
            "DASK_DISTRIBUTED__COMM__TLS__WORKER__CERT": given["cert"],
            "DASK_DISTRIBUTED__COMM__TLS__WORKER__KEY": given["key"],
        }

    def await_worker(self, job: JobHandle) -> None:
        """Wait for the first worker. Raises ConfigError if the job ends, or none comes."""
        waited_s = 0.0
        while not self.cluster.scheduler_info["workers"]:
            try:
                phase: str = job.wait(timeout=TURN_S)
            except TimeoutError:
                waited_s += TURN_S
                if waited_s < FIRST_S:
                    continue
                phase = f"without a worker after {FIRST_S:.0f} s"
            raise ConfigError(f"--on koala: job {job.job} is {phase}: {'; '.join(job.why().why)}")

    @contextmanager
    def ending_with(self, job: JobHandle) -> Iterator[list[str]]:
        """Close the scheduler when the job ends, for its client to see; yield the reason then."""
        reasons: list[str] = []
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.is_set():
                try:
                    phase: str = job.wait(timeout=TURN_S)
                except TimeoutError:
                    continue
                except KoalaError as error:
                    phase = f"unknown ({error})"
                if not is_over.is_set():
                    reasons.append(f"job {job.job} is {phase}")
                    self.cluster.close()
                return

        watcher = threading.Thread(target=watch, name="job of the workers", daemon=True)
        watcher.start()
        try:
            yield reasons
        finally:
            is_over.set()
            watcher.join()


@contextmanager
def _scheduler(daemon: str) -> Iterator[_Scheduler]:
    try:
        from distributed import LocalCluster, Security  # noqa: PLC0415 - of the extra `sweep`
    except ImportError:
        raise ConfigError(
            "--on koala: needs the extra: pip install 'koala-scheduler[sweep]'"
        ) from None
    security = Security.temporary()
    with LocalCluster(
        n_workers=0,
        processes=False,
        protocol="tls",
        security=security,
        host=own_address(daemon),
        dashboard_address="127.0.0.1:0",  # its pages cannot be left out, only kept on this machine
    ) as cluster:
        yield _Scheduler(cluster, security)


def own_address(daemon: str) -> str:
    """Return the address of this machine on the way to the daemon, which sites can reach, too."""
    host = daemon.rpartition(":")[0].strip("[]")
    if not host or daemon.startswith("unix:"):
        return "127.0.0.1"
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigError(f"--on koala: {host}: cannot be reached: {error.strerror}") from None


def _idle(client: Client) -> int:
    """Count the idle processors of usable sites; one at least, which is waited for."""
    idle = sum(site.idle for site in client.sites() if site.state == "usable")
    return max(1, min(idle, WORKERS_MAX))


@contextmanager
def _job(client: Client, scheduler: _Scheduler, python: str, count: int) -> Iterator[JobHandle]:
    """Submit the workers, and cancel them in the end."""
    from koala.client.description import Component, Job  # noqa: PLC0415

    words = ("-m", "distributed.cli.dask_worker", f"tls://{scheduler.address}", "--nthreads", "1")
    more = ("--no-nanny", "--no-dashboard", "--death-timeout", str(int(LEAVE_S)))
    worker = Component(
        executable=python,
        arguments=(*words, *more),
        environment=scheduler.worker_environment,
        start_type="no-barrier",
        wall_time=WALL_TIME,
    )
    job = client.submit(Job(name=NAME, components=(worker,) * count, quorum=1))
    try:
        yield job
    finally:
        client.cancel([job.job])
        try:
            job.wait(timeout=LEAVE_S)
        except TimeoutError:
            raise KoalaError(
                f"--on koala: job {job.job} has not ended {LEAVE_S:.0f} s after it was cancelled:"
                f" koala why {job.job}"
            ) from None
