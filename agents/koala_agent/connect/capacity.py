"""Capacity of a batch system: what an agent with given settings would be told by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import msgspec

from koala.common.protocol.messages import Queue
from koala.errors import LocalManagerError
from koala_agent.lrm.batch_system import BatchSystem, DialectSettings, Setting
from koala_agent.lrm.dialect import Figures
from koala_agent.transport.interface import Answer, Command, CommandRunner

HOUR_S = 3600.0
QUEUE_KEYS = ("partition", "queue")
"""Keys of a batch system's table for the queue of all claims, by what it calls it."""
QUEUES_MAX = 12
"""Queues that are listed."""


async def ask_capacity(
    system: BatchSystem,
    settings: Iterable[Setting],
    site: CommandRunner,
    environment: Mapping[str, str],
) -> tuple[Setting, ...]:
    """Ask for processors, GPUs and the limits of queues, as an agent with this environment would.
    Raises LocalManagerError."""
    if system.dialect is None:
        return ()
    own = {
        command.key.removeprefix("lrm."): command.value
        for command in settings
        if command.value is not None
    }
    table = {key: value for key, value in own.items() if key in system.setting_names()}
    try:
        lrm = msgspec.convert({"kind": system.kind, **table}, system.settings)
    except msgspec.ValidationError as error:  # what its user must choose first
        raise LocalManagerError(f"{system.title} was not asked: {error}") from error
    dialect = system.dialect(lrm, DialectSettings())

    async def answers(commands: Iterable[Command]) -> tuple[Answer, ...]:
        prefix = ("env", *(f"{name}={value}" for name, value in environment.items()))
        return tuple(
            [
                await site.run(replace(command, argv=(*prefix, *command.argv)))
                for command in commands
            ]
        )

    figures = dialect.read_figures(await answers(dialect.figures()))
    limits = dialect.read_limits(await answers(dialect.limits()))
    return tuple(_settings(system, figures, limits.queues, own))


def _settings(
    system: BatchSystem, figures: Figures | None, queues: tuple[Queue, ...], own: dict[str, object]
) -> Iterator[Setting]:
    key = next((key for key in QUEUE_KEYS if key in system.setting_names()), "")
    names = [str(own[key])] if own.get(key) else [one.name for one in queues if one.is_default]
    if figures is not None and figures.processors:
        where = f" in {key} {' and '.join(names)}" if key and len(names) in (1, 2) else ""
        reason = f"all that {system.title} has{where}"
        yield Setting(key="site.processors", value=figures.processors, reason=reason)
        if gpus := figures.resources.gpus:
            types = ", ".join(figures.resources.gpu_types)
            reason = f"{system.title} lists {gpus}{f' ({types})' if types else ''} by itself"
            yield Setting(key="site.gpus", reason=reason)
    if key and key not in own and queues:
        listed = "; ".join(map(_in_words, queues[:QUEUES_MAX]))
        yield Setting(key=f"lrm.{key}", reason=f"there are: {listed}")


def _in_words(queue: Queue) -> str:
    words = ["default"] if queue.is_default else []
    if queue.longest_s:
        hours = queue.longest_s / HOUR_S
        time = f"{hours:g} h" if hours >= 1 else f"{queue.longest_s / 60:g} min"
        words.append(f"up to {time}")
    if queue.processors:
        words.append(f"{queue.processors} processors a job")
    if queue.hosts:
        words.append(f"{queue.hosts} nodes a job")
    return f"{queue.name} ({', '.join(words)})" if words else queue.name
