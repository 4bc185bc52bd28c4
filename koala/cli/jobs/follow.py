"""Commands that follow jobs: wait, logs, watch; and the live phases of `koala submit --wait`."""

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
"""Jobs named in the message of Ctrl-C; its cancel command names all of them."""


def wait(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs.")],
    json: Json = False,
    address: Address = None,
) -> None:
    """Wait until jobs are over.

    Exits with 0 only if all of them have Finished.
    """

    interrupt = InterruptNotice(address, jobs)
    with interrupt:
        ends = ask(address, lambda client: wait_until_over(client, jobs, interrupt=interrupt))
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
            help="Start after event N: 0 is the oldest one kept, -1 means only new ones.",
        ),
    ] = -1,
    job: Annotated[str, typer.Option("--job", metavar="JOB", help="Only this job.")] = "",
    site: Annotated[str, typer.Option("--site", metavar="SITE", help="Only this site.")] = "",
    json: Json = False,
    address: Address = None,
) -> None:
    """Print events as they happen, until Ctrl-C; with --job until that job is over.

    Each line begins with the event's number. `--after` with the last number seen continues without
    gaps or duplicates. The command waits for a daemon that restarts.
    """
    from koala.cli.render.documents import notice_text

    interrupt = InterruptNotice(address, [job] if job else [])

    async def request(client: Client) -> None:
        if job:
            interrupt.update(await client.show(job))
        async for notice in client.watch(after=after, job=job, site=site):
            if json:
                show_json_line(notice)
            else:
                print(notice_text(notice, coloured=is_coloured()), flush=True)

    with interrupt:
        ask(address, request)


def logs(
    job: JobName,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Follow the logs until the job is over.")
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
    """Print the logs of a job's programs.

    With several processes each line begins with the component's label and the process. The index
    stands in for a missing label, and follows one that several components share.
    """
    from koala.errors import SpecError

    if stream not in ("stdout", "stderr", "both"):
        raise SpecError(f"--stream {stream!r}: allowed are stdout, stderr, both")
    chosen = chosen_component(component)
    interrupt = InterruptNotice(address, [job] if follow else [])

    async def request(client: Client) -> None:
        shown = await client.show(job)
        interrupt.update(shown)
        writers = _count_writers(shown, component=chosen, process=process)
        lines = LabelledLines(is_labelled=writers > 1, shared=_shared_names(shown))
        decoder = TextDecoder()
        async for part in client.logs(
            job, component=chosen, stream=stream, process=process, follow=follow
        ):
            text = decoder.decode(part)
            if json and text:
                show_json_line(part_document(Writer.of(part), text))
            elif not json:
                sys.stdout.write(lines.add(Writer.of(part), text))
                sys.stdout.flush()
        for writer, text in decoder.finish():
            if json:
                show_json_line(part_document(writer, text))
            else:
                sys.stdout.write(lines.add(writer, text))
        sys.stdout.write(lines.finish())

    with interrupt:
        ask(address, request)


async def newest_notice(client: Client) -> int:
    """Number of the newest notice; a watch after it misses no later notice."""
    return int((await client.metrics())["notices"])


class End(NamedTuple):
    """End of a job: its last phase, and the reason, if any."""

    phase: str
    text: str


class InterruptNotice:
    """Context manager of a waiting command: on Ctrl-C print that its jobs continue.

    The message names the commands that show and cancel them. KeyboardInterrupt passes on.
    """

    def __init__(self, address: str | None, jobs: Iterable[str] = ()) -> None:
        is_found = address is None or address == os.environ.get("KOALA_ADDRESS")
        self._at = "" if is_found else f" --address {shlex.quote(address or '')}"
        self._jobs = list(dict.fromkeys(jobs))
        self.before = ""
        """First line of the message; the only one if no job is known to continue."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            for line in filter(None, (self.before, self._continuing())):
                say(f"koala: {line}")

    def update(self, job: Mapping[str, Any]) -> None:
        """Drop the job of this document if it is over."""
        if job["phase"] in ENDS and job["job"] in self._jobs:
            self._jobs.remove(job["job"])

    def add(self, job: str) -> None:
        """Add a job that the message names."""
        self._jobs.append(job)

    def _continuing(self) -> str:
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


async def wait_until_over(
    client: Client,
    jobs: Sequence[str],
    *,
    interrupt: InterruptNotice,
    after: int | None = None,
    every_event: bool = False,
) -> dict[str, End]:
    """Wait for the ends of jobs and return them; show phases on standard error meanwhile.

    The phases shown are those of notices after `after`, or from now on.
    """
    begin = await newest_notice(client) if after is None else after
    documents = {job: await client.show(job) for job in jobs}
    ends: dict[str, End] = {}
    is_live = sys.stderr.isatty() and not every_event
    with Progress(is_live=is_live, every_event=every_event) as progress:
        for job, document in documents.items():
            interrupt.update(document)
            if document["phase"] in ENDS:
                ends[job] = End(document["phase"], document["reason"])
            elif after is None:
                shown = {"job": job, "phase": document["phase"], "text": document["reason"]}
                progress.update(shown)
        waited = documents.keys() - ends.keys()
        if not waited:
            return ends
        only = next(iter(waited)) if len(waited) == 1 else ""
        async for notice in client.watch(after=begin, job=only):
            if notice["job"] not in waited:
                continue
            if notice["phase"] not in ENDS:
                progress.update(notice)
                continue
            interrupt.update(notice)
            waited.remove(notice["job"])
            ends[notice["job"]] = End(notice["phase"], notice["text"])
            if not waited:
                break
    for job in waited:  # over, but the daemon no longer keeps its notices
        document = await client.show(job)
        ends[job] = End(document["phase"], document["reason"])
    return {job: ends[job] for job in jobs}


class Progress:
    """Phases of jobs on standard error: one line in place on a terminal, otherwise a line each.

    The line in place is erased at the end.
    """

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

    def update(self, notice: Mapping[str, Any]) -> None:
        """Show the notice if it has a new phase, or if every event is shown."""
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
    """Format the line for a job's phase."""
    from koala.cli.render.table import clean

    return f"{job}  {phase:<9}  {clean(text)}".rstrip()


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
    """Displayed name of a component; different labels may have the same displayed name."""
    from koala.cli.render.table import clean

    return clean(label) or str(component)


def _shared_names(job: Mapping[str, Any]) -> set[str]:
    """Displayed names that several components have."""
    uses = Counter(_name(part["label"], part["component"]) for part in job["parts"])
    return {name for name, count in uses.items() if count > 1}


def _count_writers(job: Mapping[str, Any], *, component: str, process: int) -> int:
    """Count the processes that the requested logs may come from."""
    chosen = [
        part for part in job["parts"] if component in ("", part["label"], str(part["component"]))
    ]
    return len(chosen) if process >= 0 else sum(part["processes"] for part in chosen)


def part_document(writer: Writer, text: str) -> dict[str, object]:
    """Build the `--json` document of a part of a log."""
    return {**writer._asdict(), "text": text}


def _terminal_width() -> int:
    import shutil

    return int(shutil.get_terminal_size().columns) - 1
