"""`koala replay`: replay a journal; simulate it under other policies or parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from koala.cli.arguments import examples, file, json_option, option
from koala.cli.output import is_json, note, print_answer, print_json, screen
from koala.common.runtime.foreign.guards import noting_replacements
from koala.errors import ConfigError, JournalError, SpecError

if TYPE_CHECKING:
    from koala.core.model.values import Instant, JobId
    from koala.daemon.storage.journal_reader import JournalReader
    from koala.lab.commands.past_run import PastRun
    from koala.lab.sim.journal_replay.recording import Recording
    from koala.policies.changes import Changes


@examples(
    "koala replay koala-state",
    "koala replay koala-state --with claiming.T=1.0",
    "koala replay koala-state --with tickets=none,turns,dodge,spare",
)
@click.command
@click.argument("journal", type=file, help="A daemon's state directory, its journal, or a backup.")
@option(
    "--with", "changes", multiple=True, metavar="KEY=VALUE",
    help="What if: another policy (placement=WF) or parameter (claiming.L=0.5, hold_s=300). One"
    " may have several values (tickets=none,dodge).",
)  # fmt: skip
@option("--job", metavar="JOB", help="Only events of this job.")
@option(
    "--from", "since", metavar="INSTANT",
    help="Start the story then: +SECONDS from the journal's start, or ISO 8601.",
    unset="the journal's start",
)  # fmt: skip
@option("--until", metavar="INSTANT", help="Read the journal up to then only.", unset="all of it")
@option("--events", is_flag=True, help="Include reports and timers without consequences.")
@option("--summary", is_flag=True, help="Only the summary, without the story.")
@option("--claims", is_flag=True, help="With --json: every claim and its instants, too.")
@json_option
def replay(
    *,
    journal: Path,
    changes: Sequence[str],
    job: str | None,
    since: str | None,
    until: str | None,
    events: bool,
    summary: bool,
    claims: bool,
) -> None:
    """Replay a past run as it was, or with changes.

    The journal is only read, and verified as at the start of a daemon. The daemon may be running;
    a copy of the journal works too.

    With --with the same submissions are simulated under other policies or parameters. Other users'
    load, run times and faults are those of the journal. Three runs are shown: as recorded,
    simulated without changes, and simulated with them. With several values of a key the totals of
    all are shown.
    """
    from koala.cli.render.documents import moment
    from koala.lab.commands.past_run import PastRun
    from koala.lab.sim.journal_replay.figures import claim_rows
    from koala.policies.changes import parse_alternatives

    if claims and not is_json():
        raise SpecError("--claims without --json (expected both: only JSON has room for them)")
    wanted = parse_alternatives(changes) if changes else None
    if wanted is not None and len(wanted) > 1 and (job is not None or claims):
        raise SpecError("--job and --claims compare two runs (expected one value a key in --with)")
    with _opened(journal) as past:
        since_at = _instant("--from", since, past)
        until_at = _instant("--until", until, past)
        if until_at is not None and until_at < past.first_at:
            begin = moment(past.first_at)
            raise ConfigError(f"--until {until} (expected {begin}, where it begins, or later)")
        run = PastRun(past, until_at=until_at)
        if run.missing:
            kept = f"events 1 to {run.missing} were deleted"
            if wanted is not None:
                raise JournalError(f"{past.source}: {kept}: --with needs all events")
            note(f"{kept}; the story starts after them, with the jobs known by then")
        only = None if job is None else run.require(job)
        if wanted is not None and len(wanted) > 1:
            _compare_all(run, wanted)
        elif wanted is not None:
            (change,) = wanted.values()
            _compare(run, change, only, with_claims=claims)
        elif is_json():
            story = [] if summary else [*run.story(since_at, job=only, is_whole=events)]
            document = _document(run, only, story)
            if claims:
                document["claims"] = _claims(claim_rows(run.history), only)
            print_json(document)
        else:
            _print_story(run, since_at, only, is_whole=events, is_short=summary)


@contextmanager
def _opened(journal: Path) -> Iterator[JournalReader]:
    """Open the journal: a file, a state directory, or a backup of either kind. Raises ConfigError,
    JournalError."""
    from koala.daemon.state.backup import is_packed, open_packed
    from koala.daemon.storage.journal_reader import open_journal

    if is_packed(journal):
        with open_packed(journal) as past:
            yield past
    else:
        yield open_journal(journal)


def _print_story(
    run: PastRun, since_at: Instant | None, job: JobId | None, *, is_whole: bool, is_short: bool
) -> None:
    from koala.lab.commands.replay_text import event_text, head_text, run_text

    print(head_text(_head(run)))
    first_at, day = run.history.first_at, ""
    if not is_short:
        print()
        for event in run.story(since_at, job=job, is_whole=is_whole):
            text, day = event_text(event, first_at=first_at, day=day)
            print(text)
    print()
    if job is None:
        print(run_text(_rows(run), screen(), first_at=first_at))
    else:
        print(_job_text(run, job))


def _job_text(run: PastRun, job: JobId) -> str:
    from koala.cli.render.documents import job_text
    from koala.cli.render.timeline import timeline_text
    from koala.views.documents import timeline_document, whole_document

    last_at = run.history.last_at
    shown = job_text(whole_document(run.scheduler, job, last_at), screen())
    drawn = timeline_text(timeline_document(run.scheduler, job, last_at), screen().for_drawing)
    return f"{shown}\n\n{drawn}"


def _compare(run: PastRun, changes: Changes, job: JobId | None, *, with_claims: bool) -> None:
    from koala.lab.commands.replay_text import comparison_text, job_comparison_text
    from koala.lab.sim.journal_replay.whatif import compare

    with ExitStack() as bars, noting_replacements() as replaced:
        comparison = compare(
            run.history, run.scheduler, changes, lambda *words: _progress(bars, *words)
        )
    document = {**_head(run), **comparison.document()}
    if replaced:
        document["replaced_policies"] = list(dict.fromkeys(replaced))
    if with_claims:
        rows = comparison.claims()
        document["claims"] = {name: _claims(column, job) for name, column in rows.items()}
    if job is not None:
        document["jobs"] = [row for row in document["jobs"] if row["job"] == job]
    text = comparison_text if job is None else job_comparison_text
    _print_compared(document, lambda: text(document, screen(), first_at=run.history.first_at))


def _compare_all(run: PastRun, changes: Mapping[str, Changes]) -> None:
    from koala.lab.commands.replay_text import alternatives_text
    from koala.lab.sim.journal_replay.whatif import alternatives

    with ExitStack() as bars, noting_replacements() as replaced:
        figures = alternatives(
            run.history, run.scheduler, changes, lambda *words: _progress(bars, *words)
        )
    document = {**_head(run), "figures": figures, "replaced_policies": [*dict.fromkeys(replaced)]}
    _print_compared(document, lambda: alternatives_text(figures, screen()))


def _print_compared(document: dict[str, Any], text: Callable[[], str]) -> None:
    from koala.lab.commands.replay_text import head_text

    replaced = document.get("replaced_policies", ())
    print_answer(document, lambda: "\n".join([head_text(document), "", text(), *replaced]))


def _claims(rows: list[dict[str, Any]], job: JobId | None) -> list[dict[str, Any]]:
    return [row for row in rows if job is None or row["job"] == job]


def _progress(bars: ExitStack, name: str, recording: Recording) -> Callable[[Instant], None]:
    from koala.common.runtime.progress_bar import progress

    span_s = max(recording.last_at - recording.first_at, 1e-9)
    words = "simulating as it was" if name == "simulated" else "simulating what if"
    update = bars.enter_context(progress(words, span_s))
    return lambda now: update(now - recording.first_at)


def _head(run: PastRun) -> dict[str, Any]:
    from koala.core.digest import digest

    return {
        "journal": str(run.past.source),
        "is_marked": run.past.committed is not None,
        "events": run.history.events,
        "first_at": run.history.first_at,
        "last_at": run.history.last_at,
        "digest": digest(run.scheduler),
    }


def _rows(run: PastRun) -> dict[str, Any]:
    from koala.lab.sim.journal_replay.figures import job_rows, site_rows, totals

    jobs, sites = job_rows(run.scheduler), site_rows(run.history)
    return {"jobs": jobs, "sites": sites, "figures": totals(run.history, jobs, sites)}


def _document(run: PastRun, job: JobId | None, story: list[Any]) -> dict[str, Any]:
    rows = _rows(run)
    if job is not None:
        rows["jobs"] = [row for row in rows["jobs"] if row["job"] == job]
    story = [
        {**asdict(event), "came": [{"who": who, "what": text} for who, text in event.came]}
        for event in story
    ]
    return {**_head(run), **rows, "story": story}


def _instant(option: str, text: str | None, past: JournalReader) -> Instant | None:
    """Parse an instant of the journal. Raises ConfigError."""
    from datetime import datetime

    if text is None:
        return None
    try:
        if text.startswith("+"):
            return past.first_at + float(text)
        if text.replace(".", "", 1).isdecimal():
            return float(text)
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{option} {text} (expected +SECONDS from the journal's begin, an instant of ISO"
            f" 8601 as in 2026-11-21T12:00:00, or seconds of the epoch)"
        ) from None
