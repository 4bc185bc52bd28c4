"""Runs on the workers of a scheduler of dask.distributed.

Runs are sent in batches of a second or more. When a worker is lost, the scheduler gives its batches
to others. Workers must have the same code and the same minor version of Python as this process.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from koala.errors import ConfigError, KoalaError
from koala.lab.sim.campaign.code import code_of_module, interpreter
from koala.lab.sim.campaign.records import Timed
from koala.lab.sim.replication import Each, Progress, Replications

if TYPE_CHECKING:
    from distributed import Client, Security

Item = TypeVar("Item")
One = TypeVar("One", bound=Timed)
CONNECT_S = 10
BATCH_S = 1.0
BATCH_MAX = 256
WORKERLESS_S = 600.0
TURN_S = 0.1
TURNS_PER_LOOK = 10
IN_FLIGHT = 3
"""Batches for each worker thread that are sent ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dask:
    """Engine of a scheduler at `address`, HOST:PORT. With `security`, a `distributed.Security`,
    connections are those of TLS. A scheduler may be without workers for `workerless_s`."""

    address: str
    security: Security | None = None
    workerless_s: float = WORKERLESS_S

    def __call__(
        self,
        run: Callable[[Item], One],
        items: Sequence[Item],
        *,
        progress: Progress,
        each: Each[Item, One],
    ) -> Replications[Item, One]:
        """Run the items. Raises ConfigError if the scheduler cannot be used, KoalaError if it is
        lost, or has no workers for too long, or loses them again and again."""
        if not items:
            return Replications(finished=())
        client = self._client()
        done: dict[int, One] = {}
        try:
            _check_workers(client)
            for place, made in _results(client, run, items, self.workerless_s):
                done[place] = made
                each(items[place], made)
                progress(len(done))
            is_interrupted = False
        except KeyboardInterrupt:
            is_interrupted = True
        finally:
            client.close(timeout=1)
        finished = tuple((item, done[place]) for place, item in enumerate(items) if place in done)
        return Replications(finished=finished, is_interrupted=is_interrupted)

    def _client(self) -> Client:
        try:
            from distributed import Client  # noqa: PLC0415 - of the extra `sweep`
        except ImportError:
            raise ConfigError(
                f"--on dask://{self.address}: needs the extra: pip install 'koala-scheduler[sweep]'"
            ) from None
        try:
            if self.security is None:
                self._probe()
            return Client(
                f"{'tls' if self.security else 'tcp'}://{self.address}",
                timeout=CONNECT_S,
                set_as_default=False,
                security=self.security,
            )
        except (OSError, ValueError, OverflowError) as error:
            detail = getattr(error, "strerror", None) or error
            raise ConfigError(f"--on dask://{self.address}: no scheduler there: {detail}") from None

    def _probe(self) -> None:
        """Connect once: Dask goes on trying where nobody listens. Raises OSError."""
        host, _, port = self.address.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()


def _check_workers(client: Client) -> None:
    """Check that there are workers and that they have our code. Raises ConfigError."""
    found: dict[str, Any] = client.run(_identity, on_error="return")
    if not found:
        raise ConfigError("--on: the scheduler has no workers")
    own = _identity()
    for worker, code in found.items():
        if code != own:
            raise _other_code(worker, code, own)


def _other_code(worker: str, code: object, own: str) -> ConfigError:
    return ConfigError(
        f"--on: worker {worker} has other code ({code}), this machine {own} (expected"
        " workers with the same Koala and Python)"
    )


def _identity() -> str:
    code = code_of_module("koala.lab.sweeps")[:16]
    return f"{interpreter()}, code {code}"


def _results(
    client: Client, run: Callable[[Item], One], items: Sequence[Item], workerless_s: float
) -> Iterator[tuple[int, One]]:
    """Yield place and result of each item. The first batches are of one item; later ones as large
    as makes a batch of a second."""
    from distributed import KilledWorker, as_completed  # noqa: PLC0415 - of the extra `sweep`

    threads = sum(client.nthreads().values())
    places = iter(range(len(items)))
    size, made_count, made_s = 1, 0, 0.0
    # With results: a result that is lost with its worker is awaited here, and not by its future.
    waiting = as_completed([], loop=client.loop, with_results=True, raise_errors=False)
    begin = [_submit_batch(client, run, items, places, size) for _ in range(IN_FLIGHT * threads)]
    for future in filter(None, begin):
        waiting.add(future)
    while not waiting.is_empty():
        if not _await_batch(client, waiting, workerless_s):
            raise KoalaError(
                f"--on: the scheduler had no workers for {workerless_s:g} s, after {made_count} of"
                f" {len(items)} runs; the same command goes on after the runs that are stored"
            )
        future, results = next(waiting)
        if future.status == "error":
            _, error, trace = results
            if isinstance(error, KilledWorker):
                raise KoalaError(
                    f"--on: {error.allowed_failures + 1} workers were lost with the same runs,"
                    f" after {made_count} of {len(items)}; they may need more memory"
                )
            raise error.with_traceback(trace)
        if future.status == "cancelled" or isinstance(results, BaseException):
            raise KoalaError(
                f"--on: the scheduler was lost after {made_count} of {len(items)} runs; the same"
                " command goes on after the runs that are stored"
            )
        for place, made in results:
            made_count, made_s = made_count + 1, made_s + made.cpu_s
            yield place, made
        size = max(1, min(BATCH_MAX, round(BATCH_S * made_count / max(made_s, 1e-6))))
        if (more := _submit_batch(client, run, items, places, size)) is not None:
            waiting.add(more)


def _await_batch(client: Client, waiting: Any, workerless_s: float) -> bool:  # noqa: ANN401 - as_completed
    """Wait for a batch, and report a scheduler without workers; return False when it had none for
    so long."""
    turns, without_s = 0, 0.0
    while not waiting.has_ready():
        with waiting.thread_condition:
            waiting.thread_condition.wait(TURN_S)
        turns += 1
        if turns % TURNS_PER_LOOK:
            continue
        if _has_workers(client):
            without_s = 0.0
            continue
        if not without_s:
            sys.stderr.write(
                f"--on: the scheduler has lost all workers; waiting {workerless_s:g} s for others\n"
            )
        without_s += TURN_S * TURNS_PER_LOOK
        if without_s >= workerless_s:
            return False
    return True


def _has_workers(client: Client) -> bool:
    try:
        return bool(client.nthreads())
    except OSError:  # of a lost scheduler, which cancels the futures, too
        return True


def _submit_batch(
    client: Client,
    run: Callable[[Item], One],
    items: Sequence[Item],
    places: Iterator[int],
    size: int,
) -> Any:  # noqa: ANN401 - a future of distributed, None when all items are sent
    batch = [(place, items[place]) for place in islice(places, size)]
    return client.submit(_run_batch, run, batch, _identity(), pure=False) if batch else None


def _run_batch(
    run: Callable[[Item], One], batch: Sequence[tuple[int, Item]], code: str
) -> list[tuple[int, One]]:
    """Run a batch, at a worker. Raises ConfigError at one of other code that came later."""
    if (own := _identity()) != code:
        from distributed import get_worker  # noqa: PLC0415 - of the extra `sweep`

        raise _other_code(get_worker().address, own, code)
    return [(place, run(item)) for place, item in batch]
