"""Runs on the workers of a scheduler of dask.distributed.

Runs are sent in batches of a second or more. When a worker is lost, the scheduler gives its batches
to others. Workers must have the same code and the same minor version of Python as this process.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from koala.errors import ConfigError, KoalaError
from koala.sim.campaign.code import code_of_module, interpreter
from koala.sim.campaign.records import Timed
from koala.sim.replication import Each, Progress, Replications

if TYPE_CHECKING:
    from distributed import Client, Security

Item = TypeVar("Item")
One = TypeVar("One", bound=Timed)
CONNECT_S = 10
BATCH_S = 1.0
BATCH_MAX = 256
IN_FLIGHT = 3
"""Batches for each worker thread that are sent ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dask:
    """Engine of a scheduler at `address`, HOST:PORT. With `security`, a `distributed.Security`,
    connections are those of TLS."""

    address: str
    security: Security | None = None

    def __call__(
        self,
        run: Callable[[Item], One],
        items: Sequence[Item],
        *,
        progress: Progress,
        each: Each[Item, One],
    ) -> Replications[Item, One]:
        """Run the items. Raises ConfigError if the scheduler cannot be used, KoalaError if it is
        lost, or its workers again and again."""
        if not items:
            return Replications(finished=())
        client = self._client()
        done: dict[int, One] = {}
        try:
            _check_workers(client)
            for place, made in _results(client, run, items):
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
        f"--on: worker {worker} has other code ({code}), this machine {own}: allowed are"
        " workers with the same Koala and Python"
    )


def _identity() -> str:
    code = code_of_module("koala.lab.sweeps")[:16]
    return f"{interpreter()}, code {code}"


def _results(
    client: Client, run: Callable[[Item], One], items: Sequence[Item]
) -> Iterator[tuple[int, One]]:
    """Yield place and result of each item. The first batches are of one item; later ones as large
    as makes a batch of a second."""
    from distributed import KilledWorker, as_completed  # noqa: PLC0415 - of the extra `sweep`
    from distributed.client import FutureCancelledError  # noqa: PLC0415

    threads = sum(client.nthreads().values())
    places = iter(range(len(items)))
    size, made_count, made_s = 1, 0, 0.0
    waiting = as_completed([], loop=client.loop)
    begin = [_submit_batch(client, run, items, places, size) for _ in range(IN_FLIGHT * threads)]
    for future in filter(None, begin):
        waiting.add(future)
    for future in waiting:
        try:
            results = future.result()
        except KilledWorker as error:
            raise KoalaError(
                f"--on: {error.allowed_failures + 1} workers were lost with the same runs, after"
                f" {made_count} of {len(items)}; they may need more memory"
            ) from None
        except FutureCancelledError:
            raise KoalaError(
                f"--on: the scheduler was lost after {made_count} of {len(items)} runs; the same"
                " command goes on after the runs that are stored"
            ) from None
        for place, made in results:
            made_count, made_s = made_count + 1, made_s + made.cpu_s
            yield place, made
        size = max(1, min(BATCH_MAX, round(BATCH_S * made_count / max(made_s, 1e-6))))
        if (more := _submit_batch(client, run, items, places, size)) is not None:
            waiting.add(more)


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
