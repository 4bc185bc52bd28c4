"""Work of a campaign: runs by name, of which this machine makes all, or a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from koala.lab.sim.campaign.execution import (
    NO_STORE,
    Campaign,
    Engine,
    Measured,
    Processes,
    StoreChoice,
    measured_task,
)
from koala.lab.sim.campaign.identity import digest
from koala.lab.sim.campaign.parts import Part, merge, write_provenance, write_runs
from koala.lab.sim.campaign.records import FinishedRun
from koala.lab.sim.replication import Progress
from koala.lab.sim.runs import Outcome

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Generic[Item]):
    """Runs to be made, here or elsewhere.

    - `run` makes one, in any process; `code` is the digest of the code that does.
    - `names` are those of the runs, the same on every machine; None: of no use elsewhere.
    - `own` are digests of the user's functions in the runs; empty: there are none.
    """

    run: Callable[[Item], Outcome]
    code: str
    items: tuple[Item, ...]
    names: tuple[str | None, ...]
    own: tuple[str, ...]

    def part(self, number: int, count: int) -> Work[Item]:
        """Return one of `count` parts, counted from 1; each has some of everything."""
        chosen = slice(number - 1, None, count)
        return replace(
            self, items=self.items[chosen], names=self.names[chosen], own=self.own[chosen]
        )

    def execute(
        self,
        store: StoreChoice = NO_STORE,
        engine: Engine | None = None,
        progress: Progress | None = None,
    ) -> Campaign[Item]:
        """Make the runs that the store does not have. Ctrl-C ends it and keeps the finished runs.
        Raises KoalaError when the store cannot be written, and what a run raises."""
        keys = [
            name and digest(name, self.code, own)
            for name, own in zip(self.names, self.own, strict=True)
        ]
        opened = store.open(self.code)
        with nullcontext() if opened is None else closing(opened):
            known: dict[int, FinishedRun] = {}
            for place, key in enumerate(keys):
                if opened is not None and key and (found := opened.get(key)) is not None:
                    known[place] = found
            tasks = [(place, item) for place, item in enumerate(self.items) if place not in known]
            stored = len(known)

            def keep(task: tuple[int, Item], made: Measured[Outcome]) -> None:
                place, _ = task
                known[place] = FinishedRun(outcome=_noted(made), cpu_s=made.cpu_s)
                if opened is not None and (key := keys[place]):
                    opened.put(key, known[place])

            def report(done: int) -> None:
                if progress is not None:
                    progress(stored + done)

            report(0)
            run = partial(measured_task, self.run)
            done = (engine or Processes())(run, tasks, progress=report, each=keep)
        assert done.is_interrupted or len(known) == len(self.items), "an engine has lost runs"
        return Campaign(
            finished=tuple((self.items[place], known[place]) for place in sorted(known)),
            is_interrupted=done.is_interrupted,
        )

    def merged(self, parts: Sequence[Part]) -> Campaign[Item]:
        """Collect the runs that other machines have made. Raises ConfigError."""
        return merge(self.items, [name or "" for name in self.names], parts, code=self.code)

    def save(
        self,
        made: Campaign[Item],
        folder: Path,
        head: Callable[[Item], Mapping[str, Any]],
        *,
        options: Mapping[str, Any],
        merged: Sequence[Part] = (),
        **more: Any,  # noqa: ANN401
    ) -> None:
        """Write the finished runs, each with its name and what `head` says of it, and their
        provenance: `options` are those that determine the results."""
        names = dict(zip(self.items, self.names, strict=True))
        write_runs(
            folder, (({"id": names[item], **head(item)}, one) for item, one in made.finished)
        )
        write_provenance(folder, made, options=options, code=self.code, merged=merged, **more)


def _noted(made: Measured[Outcome]) -> Outcome:
    """Return the outcome with a note for each policy that was replaced."""
    outcome = made.result
    return replace(outcome, notes=(*made.replaced, *outcome.notes)) if made.replaced else outcome
