"""Commands that stay: wait, logs, watch; and the live phases of `koala submit --wait`."""

from __future__ import annotations

import codecs
import os
import shlex
import sys
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from koala.cli.arguments import Address, Component, JobName, Json, chosen_component
from koala.cli.connection import (
    ENDS,
    ask,
    is_coloured,
    say,
    show_json,
    show_json_line,
)

if TYPE_CHECKING:
    from koala.client import Client
    from koala.wire.v1.koala_pb2 import LogPart

JOBS_NAMED_MAX = 20
"""As many jobs that go on are named; the command that cancels them has all."""


def wait(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs.")],
    json: Json = False,
    address: Address = None,
) -> None:
    """Wait until jobs are over.

    Exits with 0 only if all of them have Finished.
    """

    leaving = Leaving(address, jobs)
    with leaving:
        ends = ask(address, lambda client: until_over(client, jobs, leaving=leaving))
    if json:
        show_json([{"job": job, "phase": end.phase} for job, end in ends.items()])
    else:
        for job, end in ends.items():
            print(f"{job}  {end.phase}")
    for job, end in ends.items():
        if end.text:
            say(f"koala wait: {job}: {end.text}")
    if any(end.phase != "Finished" for end in ends.values()):
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
    """Print events as they happen, until Ctrl-C; with --job until that job is over.

    Each line begins with the event's number: `--after` with the last one seen goes on without gap
    or double. A daemon that restarts is waited for.
    """
    from koala.cli.render.documents import notice_text

    leaving = Leaving(address, [job] if job else [])

    async def question(client: Client) -> None:
        if job:
            leaving.look_at(await client.show(job))
        async for notice in client.watch(after=after, job=job, site=site):
            if json:
                show_json_line(notice)
            else:
                print(notice_text(notice, coloured=is_coloured()), flush=True)

    with leaving:
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
    leaving = Leaving(address, [job] if follow else [])

    async def question(client: Client) -> None:
        shown = await client.show(job)
        leaving.look_at(shown)
        writers = _writers(shown, component=chosen, process=process)
        lines = LabelledLines(is_labelled=writers > 1, shared=_shared_names(shown))
        texts = TextDecoder()
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

    with leaving:
        ask(address, question)


async def newest(client: Client) -> int:
    """The number of the newest notice: what is watched behind it misses nothing from now on."""
    return int((await client.metrics())["notices"])


class End(NamedTuple):
    """How a job ended: its last phase, and what is to be said of it beside."""

    phase: str
    text: str


class Leaving:
    """A command that Ctrl-C may end before the jobs it waits for: says then that these go on, and
    how to look at them and cancel them. Left with KeyboardInterrupt, it lets that pass."""

    def __init__(self, address: str | None, jobs: Iterable[str] = ()) -> None:
        is_found = address is None or address == os.environ.get("KOALA_ADDRESS")
        self._at = "" if is_found else f" --address {shlex.quote(address or '')}"
        self._jobs = list(dict.fromkeys(jobs))
        self.before = ""
        """To be said first; where no job is known to go on it is all."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            for line in filter(None, (self.before, self._after())):
                say(f"koala: {line}")

    def look_at(self, job: Mapping[str, Any]) -> None:
        """Of a job that is over there is nothing to say."""
        if job["phase"] in ENDS and job["job"] in self._jobs:
            self._jobs.remove(job["job"])

    def expect(self, job: str) -> None:
        """This job goes on, too."""
        self._jobs.append(job)

    def _after(self) -> str:
        if not self._jobs:
            return ""
        named = ", ".join(self._jobs[:JOBS_NAMED_MAX])
        if len(self._jobs) > JOBS_NAMED_MAX:
            named = f"{named} and {len(self._jobs) - JOBS_NAMED_MAX:,} more"
        goes, each, it = ("goes", self._jobs[0], "it") if len(self._jobs) == 1 else _SEVERAL
        every = " ".join(self._jobs)
        return (
            f"{named} {goes} on; `koala show {each}{self._at}` shows {it},"
            f" `koala cancel {every}{self._at}` cancels {it}"
        )


_SEVERAL = ("go", "JOB", "them")


async def until_over(
    client: Client,
    jobs: Sequence[str],
    *,
    leaving: Leaving,
    after: int | None = None,
    every_event: bool = False,
) -> dict[str, End]:
    """How each job ended; meanwhile the phases before that show on standard error: from now on, or
    those of notices behind `after`.
    """
    begin = await newest(client) if after is None else after
    pictures = {job: await client.show(job) for job in jobs}
    ends: dict[str, End] = {}
    with Progress(is_live=sys.stderr.isatty() and not every_event, every_event=every_event) as told:
        for job, picture in pictures.items():
            leaving.look_at(picture)
            if picture["phase"] in ENDS:
                ends[job] = End(picture["phase"], picture["reason"])
            elif after is None:
                told.tell({"job": job, "phase": picture["phase"], "text": picture["reason"]})
        waited = pictures.keys() - ends.keys()
        if not waited:
            return ends
        only = next(iter(waited)) if len(waited) == 1 else ""
        async for notice in client.watch(after=begin, job=only):
            if notice["job"] not in waited:
                continue
            if notice["phase"] not in ENDS:
                told.tell(notice)
                continue
            leaving.look_at(notice)
            waited.remove(notice["job"])
            ends[notice["job"]] = End(notice["phase"], notice["text"])
            if not waited:
                break
    for job in waited:  # over, and the daemon keeps no notice of it
        picture = await client.show(job)
        ends[job] = End(picture["phase"], picture["reason"])
    return {job: ends[job] for job in jobs}


class Progress:
    """The phases of jobs on standard error: one changing line on a terminal, which is gone at the
    end, otherwise a line each."""

    def __init__(self, *, is_live: bool, every_event: bool) -> None:
        self._is_live = is_live
        self._every_event = every_event
        self._phases: dict[str, str] = {}

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_live and self._phases:
            sys.stderr.write("\r\x1b[2K" if kind is None else "\n")
            sys.stderr.flush()

    def tell(self, notice: Mapping[str, Any]) -> None:
        """Show the notice if it says something new."""
        from koala.cli.render.table import cut

        job, phase = notice["job"], notice["phase"]
        text = progress_text(job, phase, notice["text"])
        if self._is_live:
            sys.stderr.write(f"\r\x1b[2K{cut(text, _terminal_width())}")
            sys.stderr.flush()
        elif self._every_event or phase != self._phases.get(job):
            say(text)
        self._phases[job] = phase


def progress_text(job: str, phase: str, text: str) -> str:
    """A line about a job that is waited for."""
    from koala.cli.render.table import clean

    return f"{job}  {phase:<9}  {clean(text)}".rstrip()


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


class TextDecoder:
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
    from koala.cli.render.table import clean

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
