"""`koala logs`: print the output of a job's programs."""

from __future__ import annotations

import codecs
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Container
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from koala.cli.arguments import (
    OneOf,
    WholeNumber,
    chosen_component,
    component_option,
    daemon_options,
    examples,
    job_argument,
    option,
)
from koala.cli.jobs.interrupt import InterruptNotice
from koala.cli.output import is_json, print_json
from koala.cli.requests import ask

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.client.records import JobDetails, LogPart

T = TypeVar("T")
STREAMS = ("stdout", "stderr", "both")


@examples(
    "koala logs -f j12",
    "koala logs --stream stderr -c left -p 0 j12",
)
@click.command
@job_argument
@option("-f", "--follow", is_flag=True, help="Follow the logs until the job is over.")
@component_option
@option("-p", "--process", type=WholeNumber(-1), default=-1, help="One process; -1: all.")
@option("--stream", type=OneOf(STREAMS), default="both", help="Stream of the programs.")
@daemon_options
def logs(*, job: str, follow: bool, component: str | None, process: int, stream: str) -> None:
    """Print the logs of a job's programs.

    With several processes each line begins with the component's label and the process. The index
    stands in for a missing label, and follows one that several components share.
    """
    chosen = chosen_component(component)
    interrupt = InterruptNotice([job] if follow else [])
    printer = LogPrinter()

    async def request(client: AsyncClient) -> None:
        interrupt.update(job, (await client.show(job)).phase)
        await printer.follow(
            client, job, component=chosen, process=process, stream=stream, is_live=follow
        )

    with interrupt:
        ask(request)


async def show_logs_meanwhile(
    client: AsyncClient,
    job: str,
    waiting: Awaitable[T],
    *,
    by_site: bool = False,
) -> T:
    """Print what the job's programs write, until it is over; return what is awaited meanwhile."""
    import asyncio

    printer = LogPrinter(by_site=by_site)
    found, _ = await asyncio.gather(waiting, printer.follow(client, job))
    return found


class LogPrinter:
    """Prints the logs of a job; with `by_site` components are named by their sites.

    `write` gets the text in place of standard output."""

    def __init__(
        self,
        *,
        by_site: bool = False,
        write: Callable[[str], None] | None = None,
    ) -> None:
        self._is_json = is_json()
        self._write = write or _print_text
        self._by_site = by_site
        self._attempt = 0
        self._sites: dict[int, str] = {}

    async def follow(
        self,
        client: AsyncClient,
        job: str,
        *,
        component: str = "",
        process: int = -1,
        stream: str = "both",
        is_live: bool = True,
    ) -> None:
        """Print what the job's programs write; `is_live`: until the job is over."""
        shown = await client.show(job)
        writers = _count_writers(shown, component=component, process=process)
        lines = LabelledLines(is_labelled=writers > 1, shared=_shared_names(shown))
        decoder = TextDecoder()
        async for part in client.logs(
            job, component=component, stream=stream, process=process, follow=is_live
        ):
            if self._by_site and part.attempt != self._attempt:
                self._note_sites(await client.show(job), part.attempt)
            self._print(self._writer(part), decoder.decode(part), lines)
        for writer, text in decoder.finish():
            self._print(writer, text, lines)
        self._write(lines.finish())

    def _writer(self, part: LogPart) -> Writer:
        writer = Writer.of(part)
        return writer._replace(label=self._sites.get(part.component, writer.label))

    def _note_sites(self, shown: JobDetails, attempt: int) -> None:
        self._attempt = attempt
        self._sites = {part.component: part.site or "" for part in shown.parts}

    def _print(self, writer: Writer, text: str, lines: LabelledLines) -> None:
        if not self._is_json:
            self._write(lines.add(writer, text))
        elif text:
            print_json(part_document(writer, text), indent=None)


def _print_text(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


class Writer(NamedTuple):
    """Origin of a part of a log: component, process and stream."""

    component: int
    label: str
    process: int
    stream: str

    @classmethod
    def of(cls, part: LogPart) -> Writer:
        """Return the writer of a part."""
        return cls(part.component, part.label, part.process, part.stream)


class TextDecoder:
    """Incremental UTF-8 decoder of log parts, one state for each writer.

    A part may end within a character. Invalid bytes are replaced.
    """

    def __init__(self) -> None:
        self._decoders: dict[Writer, codecs.IncrementalDecoder] = {}

    def decode(self, part: LogPart) -> str:
        """Decode the complete characters up to the end of this part."""
        writer = Writer.of(part)
        if writer not in self._decoders:
            self._decoders[writer] = codecs.getincrementaldecoder("utf-8")(errors="replace")
        return self._decoders[writer].decode(part.data)

    def finish(self) -> list[tuple[Writer, str]]:
        """Decode the incomplete characters at the end, with replacement."""
        ends = [(writer, one.decode(b"", final=True)) for writer, one in self._decoders.items()]
        return [(writer, text) for writer, text in ends if text]


class LabelledLines:
    """Assembles complete lines from the parts of several programs, with a label before each.

    A name in `shared`, which several components have, is followed by the component's index.
    """

    def __init__(self, *, is_labelled: bool, shared: Container[str] = ()) -> None:
        self._is_labelled = is_labelled
        self._shared = shared
        self._open: dict[Writer, str] = {}

    def add(self, writer: Writer, text: str) -> str:
        """Add text of a writer; return the lines that it completes."""
        if not self._is_labelled:
            return text
        *whole, self._open[writer] = (self._open.get(writer, "") + text).split("\n")
        return "".join(f"{self._label(writer)}{line}\n" for line in whole)

    def finish(self) -> str:
        """Return the lines without a final newline."""
        left = ((writer, line) for writer, line in self._open.items() if line)
        return "".join(f"{self._label(writer)}{line}\n" for writer, line in left)

    def _label(self, writer: Writer) -> str:
        mark = "!" if writer.stream == "stderr" else "|"
        name = _name(writer.label, writer.component)
        if name in self._shared:
            name = f"{name}.{writer.component}"
        return f"{name}.{writer.process} {mark} "


def _name(label: str, component: int) -> str:
    """Return the displayed name of a component; different labels may have the same displayed
    name."""
    from koala.cli.render.table import clean

    return clean(label) or str(component)


def _shared_names(job: JobDetails) -> set[str]:
    """Return the displayed names that several components have."""
    uses = Counter(_name(part.label, part.component) for part in job.parts)
    return {name for name, count in uses.items() if count > 1}


def _count_writers(job: JobDetails, *, component: str, process: int) -> int:
    """Count the processes that the requested logs may come from."""
    chosen = [part for part in job.parts if component in ("", part.label, str(part.component))]
    return len(chosen) if process >= 0 else sum(part.processes for part in chosen)


def part_document(writer: Writer, text: str) -> dict[str, object]:
    """Build the `--json` document of a part of a log."""
    return {**writer._asdict(), "text": text}
