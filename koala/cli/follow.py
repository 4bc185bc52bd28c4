"""Commands that stay: wait, logs, watch; and the live phases of `koala submit --wait`."""

from __future__ import annotations

import codecs
import sys
from collections import Counter
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from koala.cli.connection import (
    ENDS,
    ask,
    is_coloured,
    say,
    show_json,
    show_json_line,
)
from koala.cli.inputs import Address, Component, JobName, Json, chosen_component

if TYPE_CHECKING:
    from koala.client import Client
    from koala.wire.v1.koala_pb2 import LogPart


def wait(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs.")],
    json: Json = False,
    address: Address = None,
) -> None:
    """Wait until jobs are over.

    Exits with 0 only if all of them have Finished.
    """

    async def question(client: Client) -> dict[str, str]:
        return {job: await until_over(client, job) for job in jobs}

    ends = ask(address, question)
    if json:
        show_json([{"job": job, "phase": phase} for job, phase in ends.items()])
    else:
        for job, phase in ends.items():
            print(f"{job}  {phase}")
    if any(phase != "Finished" for phase in ends.values()):
        raise typer.Exit(1)


def watch(
    after: Annotated[
        int,
        typer.Option(
            "--after",
            metavar="N",
            min=-1,
            help="Begin behind event N: 0 is the first one kept, -1 means only new ones.",
        ),
    ] = -1,
    job: Annotated[str, typer.Option("--job", metavar="JOB", help="Only this job.")] = "",
    site: Annotated[str, typer.Option("--site", metavar="SITE", help="Only this site.")] = "",
    json: Json = False,
    address: Address = None,
) -> None:
    """Print events as they happen, until Ctrl-C.

    Each line begins with the event's number: `--after` with the last one seen goes on without gap
    or double. A daemon that restarts is waited for.
    """
    from koala.cli.render import notice_text

    async def question(client: Client) -> None:
        async for notice in client.watch(after=after, job=job, site=site):
            if json:
                show_json_line(notice)
            else:
                print(notice_text(notice, coloured=is_coloured()), flush=True)

    ask(address, question)


def logs(
    job: JobName,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until the job is over.")
    ] = False,
    component: Component = None,
    process: Annotated[
        int, typer.Option("-p", "--process", metavar="N", min=-1, help="One process; -1: all.")
    ] = -1,
    stream: Annotated[
        str, typer.Option("--stream", metavar="NAME", help="stdout, stderr, or both.")
    ] = "both",
    json: Json = False,
    address: Address = None,
) -> None:
    """Print what a job's programs wrote.

    Each line says whose it is, unless there is only one process to be read: the component's label,
    or index (both, where several have one label), and the process.
    """
    from koala.errors import SpecError

    if stream not in ("stdout", "stderr", "both"):
        raise SpecError(f"--stream {stream!r}: allowed are stdout, stderr, both")
    chosen = chosen_component(component)

    async def question(client: Client) -> None:
        shown = await client.show(job)
        writers = _writers(shown, component=chosen, process=process)
        lines = LabelledLines(is_labelled=writers > 1, shared=_shared_names(shown))
        texts = Texts()
        async for part in client.logs(
            job, component=chosen, stream=stream, process=process, follow=follow
        ):
            text = texts.take(part)
            if json and text:
                show_json_line(part_document(Writer.of(part), text))
            elif not json:
                sys.stdout.write(lines.take(Writer.of(part), text))
                sys.stdout.flush()
        for writer, text in texts.rest():
            if json:
                show_json_line(part_document(writer, text))
            else:
                sys.stdout.write(lines.take(writer, text))
        sys.stdout.write(lines.rest())

    ask(address, question)


async def newest(client: Client) -> int:
    """The number of the newest notice: what is watched behind it misses nothing from now on."""
    return int((await client.metrics())["notices"])


async def until_over(
    client: Client, job: str, *, after: int | None = None, every_event: bool = False
) -> str:
    """The phase in which a job ended; meanwhile its phases show on standard error.

    `after` is a notice before the first that should show.
    """
    after = await newest(client) if after is None else after
    picture = await client.show(job)
    if picture["phase"] in ENDS:
        return str(picture["phase"])
    progress = Progress(is_live=sys.stderr.isatty() and not every_event, every_event=every_event)
    async for notice in client.watch(after=after, job=job):
        progress.tell(notice)
        if notice["phase"] in ENDS:
            break
    progress.end()
    return str((await client.show(job))["phase"])


class Progress:
    """A job's phases on standard error: one changing line on a terminal, otherwise a line each."""

    def __init__(self, *, is_live: bool, every_event: bool) -> None:
        self._is_live = is_live
        self._every_event = every_event
        self._phase = ""

    def tell(self, notice: Mapping[str, Any]) -> None:
        """Show the notice if it says something new."""
        from koala.cli.table import clean, cut

        text = f"{notice['job']}  {notice['phase']:<9}  {clean(notice['text'])}".rstrip()
        if self._is_live:
            sys.stderr.write(f"\r\x1b[2K{cut(text, _terminal_width())}")
            sys.stderr.flush()
        elif self._every_event or notice["phase"] != self._phase:
            say(text)
        self._phase = notice["phase"]

    def end(self) -> None:
        """Leave the last phase standing."""
        if self._is_live and self._phase:
            sys.stderr.write("\n")


class Writer(NamedTuple):
    """Who wrote a part of a log, and where."""

    component: int
    label: str
    process: int
    stream: str

    @classmethod
    def of(cls, part: LogPart) -> Writer:
        """That of a part."""
        return cls(part.component, part.label, part.process, part.stream)


class Texts:
    """The texts of logs whose parts may end within a character; bytes that are no UTF-8 are
    replaced."""

    def __init__(self) -> None:
        self._decoders: dict[Writer, codecs.IncrementalDecoder] = {}

    def take(self, part: LogPart) -> str:
        """All whole characters up to the end of this part."""
        writer = Writer.of(part)
        if writer not in self._decoders:
            self._decoders[writer] = codecs.getincrementaldecoder("utf-8")(errors="replace")
        return self._decoders[writer].decode(part.data)

    def rest(self) -> list[tuple[Writer, str]]:
        """Of those that ended within one."""
        ends = [(writer, one.decode(b"", final=True)) for writer, one in self._decoders.items()]
        return [(writer, text) for writer, text in ends if text]


class LabelledLines:
    """Puts whole lines together from the parts of several programs, with a label before each.
    Of components that `shared` a name the index stands behind it."""

    def __init__(self, *, is_labelled: bool, shared: Container[str] = ()) -> None:
        self._is_labelled = is_labelled
        self._shared = shared
        self._open: dict[Writer, str] = {}

    def take(self, writer: Writer, text: str) -> str:
        """The lines that this text completes."""
        if not self._is_labelled:
            return text
        *whole, self._open[writer] = (self._open.get(writer, "") + text).split("\n")
        return "".join(f"{self._label(writer)}{line}\n" for line in whole)

    def rest(self) -> str:
        """Lines that nothing ended."""
        left = ((writer, line) for writer, line in self._open.items() if line)
        return "".join(f"{self._label(writer)}{line}\n" for writer, line in left)

    def _label(self, writer: Writer) -> str:
        mark = "!" if writer.stream == "stderr" else "|"
        name = _name(writer.label, writer.component)
        if name in self._shared:
            name = f"{name}.{writer.component}"
        return f"{name}.{writer.process} {mark} "


def _name(label: str, component: int) -> str:
    """A component's, as it is shown: two may be written differently and look alike."""
    from koala.cli.table import clean

    return clean(label) or str(component)


def _shared_names(job: Mapping[str, Any]) -> set[str]:
    """The names that several components have."""
    uses = Counter(_name(part["label"], part["component"]) for part in job["parts"])
    return {name for name, count in uses.items() if count > 1}


def _writers(job: Mapping[str, Any], *, component: str, process: int) -> int:
    """How many processes may have written what is asked for."""
    chosen = [
        part for part in job["parts"] if component in ("", part["label"], str(part["component"]))
    ]
    return len(chosen) if process >= 0 else sum(part["processes"] for part in chosen)


def part_document(writer: Writer, text: str) -> dict[str, object]:
    """A part of a log for `--json`."""
    return {**writer._asdict(), "text": text}


def _terminal_width() -> int:
    import shutil

    return int(shutil.get_terminal_size().columns) - 1
