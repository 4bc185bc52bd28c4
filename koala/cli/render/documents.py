"""The daemon's records as text. Pure: a record in, text out.

The records are those of docs/api.md. An unknown value is shown as `-`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from koala.cli.render.table import FILE, NOTHING, Column, Screen, clean, column, painted, table
from koala.views import units
from koala.views.cells import site_state
from koala.views.records.access import (
    Limits,
    Notifications,
)
from koala.views.records.accounts import ClaimCost, ClaimReport, Report, ReportRow
from koala.views.records.base import Moment
from koala.views.records.grid import LocalQueue, Metrics, Queues, SiteStatus
from koala.views.records.jobs import (
    Deadline,
    Explanation,
    JobDetails,
    JobProgress,
    Notice,
    Part,
    StoryLine,
    Timeline,
    Transfer,
)
from koala.views.units import counted

if TYPE_CHECKING:
    from koala.client.records import OutputFile

STORY_LINES = 12


def sites_text(
    sites: Sequence[SiteStatus], screen: Screen = FILE, *, is_detailed: bool = False
) -> str:
    """Format `koala site`: one line a site, then why no more is idle, reasons of absences,
    troubles, notices, and in detail the commands at its batch system."""
    heads = (
        column("SITE", "site"),
        column("STATE", site_state),
        column(">PROCESSORS", "processors"),
        column(">IDLE", "idle"),
        *([column(">GPUS", _gpus)] if any(site.gpus for site in sites) else []),
        column(">CLAIMED", lambda site: site.held + site.running),
        column(">ERRORS", "errors", rank=1),
        column(">ROUND TRIP", lambda site: milliseconds(site.rtt_s), rank=3),
        column("FOR", _whose, rank=2),
    )
    troubles = [
        f"{clean(site.site)} needs its administrator: {clean(site.trouble)}"
        for site in sites
        if site.trouble
    ]
    absences = [f"{clean(site.site)} is away: {why}" for site in sites if (why := _why_away(site))]
    reasons = [f"{clean(site.site)}: {clean(site.why_idle)}" for site in sites if site.why_idle]
    notices = [f"{clean(site.site)}: {clean(site.notice)}" for site in sites if site.notice]
    if is_detailed:
        notices += [
            f"{clean(site.site)}: {clean(site.commands)}" for site in sites if site.commands
        ]
    return "\n".join((table(heads, sites, screen), *reasons, *absences, *troubles, *notices))


def more_lines(site: SiteStatus) -> str:
    """Describe what is shown of one site alone: how claims that wait there are kept from starting,
    how processors are booked, its reservations, and what one job may have in its queues."""
    tried = f" ({clean(site.gate_tried)})" if site.gate_tried else ""
    gate = f"gate: {clean(site.gate)}{tried}" if site.gate else "gate: none"
    books = f"bookings: {clean(site.books) if site.books else 'none'}"
    reserved = (site.reservations or {}).items()
    rooms = [f"reservation {clean(name)}: {idle} idle" for name, idle in reserved]
    return "\n".join([gate, books, *rooms, *map(_queue, site.resources.queues)])


def _queue(queue: LocalQueue) -> str:
    limits = [
        f"{units.duration(queue.longest_s)} at most" if queue.longest_s else "no limit of time",
        f"{units.duration(queue.usual_s)} without a request" if queue.usual_s else "",
        f"{queue.processors} processors" if queue.processors else "",
        f"{queue.hosts} nodes" if queue.hosts else "",
    ]
    name = f"queue {clean(queue.name)}{' (default)' if queue.is_default else ''}"
    return f"{name}: {', '.join(filter(None, limits))}"


def _gpus(site: SiteStatus) -> str:
    """Format the GPUs of a site, as in `2 of 4 idle`."""
    gpus = site.gpus
    return f"{site.idle_gpus} of {gpus} idle" if gpus else NOTHING


def _why_away(site: SiteStatus) -> str:
    """Explain why a site cannot reconnect by itself; empty if no reason is known."""
    if site.state != "disconnected":
        return ""
    match site.enrolment:
        case "revoked":
            return f"it was revoked at {moment(site.revoked_at)} (koala audit: by whom)"
        case "expired":
            at = moment(site.expires_at)
            return f"its certificate expired at {at}; koala site add lets it join again"
        case "awaited":
            return "a join token was made for it, and not used yet"
        case _:
            return ""


def _whose(site: SiteStatus) -> str:
    """Format the users that may use a site."""
    users = site.users
    some = f"{users} users" if users > 1 else "one user"
    return site.owner or (some if users else "everybody")


def outputs_text(files: Sequence[OutputFile], screen: Screen = FILE) -> str:
    """Format `koala outputs`: one line an output file; only the path of each if fetched."""
    if any(file.path for file in files):
        return "\n".join(clean(str(file.path)) for file in files)
    heads = (column("FILE", "name"), column(">SIZE", lambda file: size(file.size_bytes)))
    return table(heads, files, screen)


def job_text(job: JobDetails, screen: Screen = FILE) -> str:
    """Format `koala show`: the job, its components and its recent history."""
    timeline = job.timeline
    phase = painted(clean(job.phase)) if screen.is_coloured else clean(job.phase)
    whose = f"{job.job} of {job.owner or 'nobody'}, {job.priority} priority"
    facts = [
        ("job", clean(whose)),
        ("phase", f"{phase}{': ' + clean(job.reason) if job.reason else ''}"),
        ("submitted", moment(job.submitted_at)),
        ("deadline", _deadline(job.deadline)),
        *[("" if n else "size", clean(words)) for n, words in enumerate(_size(job))],
        ("total", clean(job.total)),
        ("attempt", f"{job.attempts}, after {_tries(job.placement_tries, 'placement')} and"
                    f" {_tries(job.claiming_tries, 'claiming')}"),
        ("files", _transfer(timeline, job.transfers)),
        ("start", _start(timeline)),
        *[("" if n else "expected", clean(words)) for n, words in enumerate(_expected(job))],
        *[("" if n else "waits", clean(words)) for n, words in enumerate(_waits(job))],
        ("held", f"{processor_seconds(timeline.processor_wasted_s)} before the start,"
                 f" {timeline.processor_run_s:,.1f} after it"),
    ]  # fmt: skip
    facts += [("" if n else "ports", clean(way.words)) for n, way in enumerate(job.ports)]
    if job.progress:
        facts += _progress(job.progress)
    if job.claims_stopping:
        facts.append(
            ("stopping", f"{job.claims_stopping} claims whose sites have not confirmed it")
        )
    lines = [f"{name:<10} {text}" for name, text in facts if text]
    return "\n".join(
        [
            *lines,
            "",
            table(PARTS, job.parts, screen),
            "",
            *([table(TRANSFERS, job.transfers, screen), ""] if job.transfers else []),
            *([_claims_text(job.charges, screen), ""] if job.charges else []),
            *story_lines(job.story),
        ]
    )


def _expected(job: JobDetails) -> tuple[str, ...]:
    return () if job.expected is None else job.expected.words


def _waits(job: JobDetails) -> list[str]:
    return [f"{part.label}: {part.wait}" for part in job.parts if part.wait]


BARS = "▁▂▃▄▅▆▇█"


def _progress(progress: JobProgress) -> list[tuple[str, str]]:
    """Format the progress skew of the components, now and over time."""
    shares = ", ".join(f"{clean(label)} {share:.0%}" for label, share in progress.shares.items())
    allowed = progress.asynchrony_s
    words = [
        f"{clean(progress.policy)}: skew {seconds(progress.skew_s)},"
        f" at most {seconds(progress.largest_skew_s)}",
        *([f"{seconds(allowed)} allowed"] if allowed is not None else []),
        units.counted(progress.corrections, "correction"),
        *([f"held back: {shares}"] if shares else []),
    ]
    points = progress.skews
    largest = max(skew for _, skew in points) or 1.0
    steps = len(BARS) - 1
    bars = "".join(BARS[round(skew / largest * steps)] for _, skew in points[-64:])
    since, until = points[-64:][0][0], points[-1][0]
    over = f"{bars}  from {seconds(since)} to {seconds(until)}, highest {seconds(largest)}"
    return [("progress", "; ".join(words)), ("skew", over)]


def _rate(transfer: Transfer) -> str:
    rate_bps = transfer.rate_bps
    return NOTHING if rate_bps is None else f"{size(rate_bps)}/s"


def why_text(found: Explanation) -> str:
    """Format `koala why`: one line a sentence."""
    return "\n".join(map(clean, found.why))


def metrics_text(found: Metrics) -> str:
    """Format `koala metrics`: one line a figure, nested names joined by dots."""
    figures = [(clean(name), clean(value)) for name, value in _flat("", found.document)]
    longest = max((len(name) for name, _ in figures), default=0)
    return "\n".join(f"{name:<{longest}}  {value}" for name, value in figures)


def report_text(report: Report | ClaimReport, screen: Screen = FILE) -> str:
    """Format `koala report`: its rows, and the total below them."""
    if isinstance(report, ClaimReport):
        return _claims_text(report.claims, screen)
    by, rows = report.by, list(report.rows)
    if len(rows) != 1 and report.total is not None:
        rows.append(report.total)

    def subject(row: ReportRow) -> str:
        return "TOTAL" if row is report.total else getattr(row, by) or "nobody"

    heads = (
        column(by.upper(), subject),
        column(">FINISHED", "jobs_finished"),
        column(">FAILED", "jobs_failed"),
        column(">CANCELLED", "jobs_cancelled", rank=1),
        column(">CLAIMS", "claims", rank=3),
        *_costs(),
        column(">SKEW", lambda row: milliseconds(row.skew_median_s), rank=4),
        column(">LARGEST", lambda row: milliseconds(row.skew_max_s), rank=5),
        column(">CLAIMS FAILED", "failed_claims", rank=6),
        column(">SETBACKS", "setbacks", rank=2),
        *([column(">FORWARDED", _forwarded, rank=7)] if any(map(_forwarded, rows)) else []),
    )
    met = [line for row in rows if (line := _starts_met(row, subject(row)))]
    return "\n".join([table(heads, rows, screen), COSTS_LEGEND, *met])


def _forwarded(row: ReportRow | ClaimCost) -> str:
    """Format what went through the grid; empty if nothing did."""
    return units.size(row.forwarded_bytes) if row.forwarded_bytes else ""


def _starts_met(row: ReportRow, subject: str) -> str:
    """Say how many stated starts were right; empty where none was stated."""
    stated = row.starts_stated
    if not stated:
        return ""
    starts = units.counted(stated, "stated start")
    share = 100 * row.starts_met / stated
    return f"{clean(subject)}: of {starts} {share:.0f} % lay within their intervals"


COSTS_LEGEND = "(RUN, HELD and WASTED in processor-seconds)"


def _costs() -> tuple[Column, ...]:
    """Return the columns of processor-seconds."""

    def amount(name: str) -> Callable[[ReportRow | ClaimCost], str]:
        return lambda row: f"{getattr(row, name):,.1f}"

    return tuple(
        column(f">{kind.upper()}", amount(f"{kind}_s")) for kind in ("run", "held", "wasted")
    )


def _claims_text(claims: Sequence[ClaimCost], screen: Screen) -> str:
    """Format the cost of each claim."""
    heads = (
        column("CLAIM", "claim"),
        column("SITE", "site"),
        column("BATCH JOB", "batch_job", rank=1),
        column(">PROCESSORS", "processors", rank=3),
        column("CHECKED IN", lambda row: moment(row.granted_at), rank=2),
        *_costs(),
        column("END", "end", rank=4),
    )
    return f"{table(heads, claims, screen)}\n{COSTS_LEGEND}"


def notice_text(notice: Notice, screen: Screen = FILE) -> str:
    """Format `koala watch`: one line an event, its number first so that a watch can resume."""
    subject = notice.job or notice.site or "daemon"
    phase = painted(clean(notice.phase)) if screen.is_coloured else clean(notice.phase)
    words = [str(notice.number), moment(notice.at), clean(subject), phase]
    return "  ".join(word for word in [*words, clean(notice.text)] if word)


def moment(at: Moment | float | None) -> str:
    """Format an instant of the daemon as local time, to the second."""
    if at is None:
        return NOTHING
    at = float(at)
    try:
        return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # as far as calendars go
        return f"{at:g} s after 1970"


def seconds(duration_s: float | None) -> str:
    """Format a duration with its significant digits."""
    if duration_s is None:
        return NOTHING
    if abs(duration_s) < 0.0995:
        return milliseconds(duration_s)
    return f"{duration_s:.1f} s" if abs(duration_s) < 1000 else f"{duration_s:,.0f} s"


def processor_seconds(amount: float | None) -> str:
    """Format an amount of processor-seconds."""
    return NOTHING if amount is None else f"{amount:,.1f} processor-seconds"


def milliseconds(duration_s: float | None) -> str:
    """Format a short duration in milliseconds."""
    if duration_s is None:
        return NOTHING
    return f"{duration_s * 1000:.1f} ms" if duration_s else "0 ms"


def size(size_bytes: float | None) -> str:
    """Format a number of bytes in the unit that gives one to three digits."""
    return NOTHING if size_bytes is None else units.size(size_bytes)


def _tries(count: int, kind: str) -> str:
    return units.counted(count, f"{kind} try", f"{kind} tries")


def _size(job: JobDetails) -> tuple[str, ...]:
    """Return the size of a malleable job that is not over, in sentences."""
    return () if job.size is None or job.is_over else job.size.words


def _deadline(deadline: Deadline | None) -> str:
    if deadline is None:
        return ""
    text = moment(deadline.deadline_at)
    left = deadline.tries_left
    if not left:
        return text
    next_at = moment(deadline.next_try_at)
    return f"{text}, {_tries(left, 'claiming')} left, the next at {next_at}"


def _transfer(timeline: Timeline, transfers: Sequence[Transfer]) -> str:
    under_way = [transfer for transfer in transfers if not transfer.is_done]
    if under_way:
        moved = sum(transfer.moved_bytes for transfer in transfers)
        whole = sum(transfer.size_bytes for transfer in transfers)
        lefts = [transfer.left_s for transfer in under_way if transfer.left_s is not None]
        is_late = len(lefts) < len(under_way)
        left = "longer than was expected" if is_late else f"{seconds(max(lefts))} left"
        return f"{size(moved)} of {size(whole)} moved, {left}"
    if not timeline.transfer_bytes and not timeline.transfer_estimate_s:
        return ""
    return (
        f"{size(timeline.transfer_bytes)} moved in {seconds(timeline.transfer_s)}"
        f" (estimated {seconds(timeline.transfer_estimate_s)})"
    )


def _start(timeline: Timeline) -> str:
    if timeline.start_skew_s is None:
        return ""
    return (
        f"skew {milliseconds(timeline.start_skew_s)} between components,"
        f" {seconds(timeline.start_lateness_s)} after the planned start{_put_off(timeline)}"
    )


def _put_off(timeline: Timeline) -> str:
    delay_s = timeline.start_delay_s
    return f", which was put off by {seconds(delay_s)}" if delay_s else ""


def _claim(part: Part) -> str:
    if part.is_dropped:
        return "dropped"
    if part.claim_phase is None:
        return NOTHING if part.claim is None else f"{part.claim} over"
    return f"{part.claim} {part.claim_phase}"


def _end(part: Part) -> str:
    if part.end is not None:
        return clean(part.end["text"])
    return clean(part.refusal or "") or NOTHING


def story_lines(story: Sequence[StoryLine]) -> list[str]:
    """Format the last lines of the job's history."""
    lines = [f"{moment(at)}  {clean(text)}" for at, text in story[-STORY_LINES:]]
    left_out = len(story) - len(lines)
    return [*([f"... {left_out} earlier lines: --json shows them"] if left_out else []), *lines]


def _flat(name: str, value: object) -> Iterable[tuple[str, str]]:
    match value:
        case Mapping():
            for key, inner in value.items():
                yield from _flat(f"{name}.{key}" if name else str(key), inner)
        case list():
            for index, inner in enumerate(value):
                yield from _flat(f"{name}.{index}", inner)
        case float():
            yield name, f"{value:.6g}"
        case _:
            yield name, str(value)


def queues_text(found: Queues, screen: Screen = FILE) -> str:
    """Format `koala queues`: each queue that is not empty, with its first jobs."""
    heads = (
        column(">PLACE", "position"),
        column("JOB", "job"),
        column("NAME", lambda job: job.name or ""),
        column("OWNER", "owner"),
        column(">PROCESSORS", "processors"),
        column(">COMPONENTS", "components", rank=2),
        column(">TRIES", "placement_tries", rank=1),
        column("SUBMITTED", lambda job: moment(job.submitted_at), rank=1),
    )
    parts = []
    for queue in found.queues:
        if queue.jobs:
            jobs = counted(queue.jobs, "job")
            shown = table(heads, queue.first, screen) if queue.first else ""
            parts.append(f"queue {queue.queue}: {jobs}\n{shown}".rstrip())
    return "\n\n".join(parts) or "no job waits in a queue"


def notifications_text(found: Notifications) -> str:
    """Format `koala notify`: how the user is told, and what could not be delivered."""
    if not (found.mail or found.webhook):
        lines = ["you are told of nothing; koala notify --mail ADDRESS changes that"]
    else:
        lines = [f"mail     {found.mail or NOTHING}", f"webhook  {found.webhook or NOTHING}"]
        lines += [f"on       {', '.join(found.on)}"]
        lines += [f"key      {found.key}"] if found.webhook else []
    for late in found.waiting:
        again = "given up" if late.next_at is None else f"again at {moment(late.next_at)}"
        lines.append(
            f"not delivered since {moment(late.since)}: {late.channel} {clean(late.target)}:"
            f" {clean(late.trouble)}; {counted(late.tries, 'try', 'tries')}, {again}"
        )
    return "\n".join(lines)


def _limits(limits: Limits | None) -> str:
    """Format the limits of a user or group."""
    if limits is None:
        return "-"
    known = {
        "jobs": limits.jobs,
        "processors": limits.processors,
        "GPUs": limits.gpus,
        "processor-seconds held": limits.hold_s,
    }
    texts = [f"{value:g} {name}" for name, value in known.items() if value is not None]
    return ", ".join([*texts, *([f"{limits.shares:g} shares"] if limits.shares != 1 else [])])


FILES = (
    column("FILE", "file"),
    column(">SIZE", lambda entry: size(entry.size_bytes)),
    column("SITES", "sites"),
    column("CHECKSUM", lambda entry: (entry.checksum or NOTHING)[:16], rank=1),
)
"""Columns of `koala files`: a line a logical file."""
PARTS = (
    column("COMPONENT", "label"),
    column("SITE", lambda one: one.site or (one.fixed_site and f"({one.fixed_site})")),
    column(">PROCESSORS", "processors", rank=1),
    column(">PROCESSES", "processes", rank=3),
    column("FILE FROM", "file_site", rank=4),
    column("CLAIM", _claim, rank=2),
    column("OUTCOME", _end),
)
"""Columns of the components of a job."""
TRANSFERS = (
    column("FILE OF", "components", rank=4),
    column("FILE", "file"),
    column("FROM", "source", rank=1),
    column("TO", "target", rank=1),
    column(">MOVED", lambda one: size(one.moved_bytes), rank=3),
    column(">OF", lambda one: size(one.size_bytes), rank=3),
    column(">SHARE", lambda one: f"{one.share:.0%}"),
    column(">RATE", _rate, rank=2),
    column(">TIME LEFT", lambda one: "done" if one.is_done else seconds(one.left_s)),
)
"""Columns of the copies of a job's input file in its current attempt."""
ENROLMENTS = (
    column("SITE", "site"),
    column("STATE", "state"),
    column("OWNER", lambda site: site.owner or "-", rank=1),
    column("JOINED", lambda site: moment(site.joined_at), rank=3),
    column("VALID UNTIL", lambda site: moment(site.expires_at or site.join_expires_at)),
    column("BY", "by", rank=2),
)
"""Columns of `koala site list`: a line a site."""
USERS = (
    column("USER", "user"),
    column("ROLE", "role"),
    column("STATE", "state"),
    column("GROUP", lambda user: user.group or "-", rank=1),
    column("LIMITS", lambda user: _limits(user.limits), rank=2),
    column("VALID UNTIL", lambda user: moment(user.expires_at), rank=1),
    column("LAST USED", lambda user: moment(user.used_at), rank=2),
    column("BY", "by", rank=3),
)
"""Columns of `koala user list`: a line a user."""
GROUPS = (
    column("GROUP", "group"),
    column("MEMBERS", lambda group: " ".join(group.members) or "-"),
    column(">JOBS", "jobs"),
    column(">PROCESSORS", "processors"),
    column(">GPUS", "gpus", rank=1),
    column("LIMITS", lambda group: _limits(group.limits)),
    column("BY", "by", rank=2),
)
"""Columns of `koala group list`: a line a group."""
AUDIT = (
    column("AT", "time"),
    column("WHO", "who"),
    column("ROLE", "role", rank=2),
    column("FROM", "source", rank=1),
    column("VERB", "verb"),
    column("OBJECT", "object"),
    column("OUTCOME", "outcome"),
)
"""Columns of `koala audit`: a line a call."""
