"""A scene as the lines of a screen, which no terminal breaks. Pure.

Colours repeat what words and signs say.
"""

from __future__ import annotations

from koala.cli.render.table import NOTHING, Screen, clean, column, cut, table
from koala.cli.top.detail import job_lines, log_lines, why_lines
from koala.cli.top.scene import TopScene, waited_s
from koala.cli.top.state import KEYS, Order, Prompt, TopState, View
from koala.views.cells import site_cells, trouble
from koala.views.records.grid import SiteStatus
from koala.views.records.jobs import JobSummary
from koala.views.units import duration
from koala.views.usage import total_use, use_of

BAR = 20
SIGNS = {"running": "=", "waiting": ":", "others": "o"}
"""Signs of a bar: of claims that run, of claims before their start, and of local users."""
REVERSED, BOLD, RED, PLAIN = "\x1b[7m", "\x1b[1m", "\x1b[31m", "\x1b[0m"
HINTS = {
    View.GRID: "enter job  w why  l logs  c cancel  / filter  s sort  a all  ? help  q quit",
    View.JOB: "w why  l logs  c cancel  up down scroll  esc back  ? help",
    View.WHY: "l logs  c cancel  up down scroll  esc back  ? help",
    View.LOGS: "w why  c cancel  up down scroll  esc back  ? help",
    View.HELP: "esc back",
}


def screen_lines(
    scene: TopScene, state: TopState, *, width: int, height: int, coloured: bool = False
) -> list[str]:
    """Draw a screen: at most `height` lines of at most `width` characters."""
    head = _head(scene, state, width, coloured=coloured)
    foot = _foot(state, width, coloured=coloured)
    room = max(1, height - len(head) - len(foot))
    body = _body(scene, state, width, room, coloured=coloured)
    body += [""] * (room - len(body))
    return [*head, *body[:room], *foot][:height]


def _body(scene: TopScene, state: TopState, width: int, room: int, *, coloured: bool) -> list[str]:
    match state.view:
        case View.GRID:
            return _grid(scene, state, width, room, coloured=coloured)
        case View.JOB:
            return _window(job_lines(scene, width, coloured=coloured), state, room)
        case View.WHY:
            return _window(why_lines(scene, width), state, room)
        case View.LOGS:
            lines = log_lines(scene, state.chosen, width)
            return _window(lines, state, room, is_at_end=True)
        case View.HELP:
            help_lines = [cut(f"{keys:<10} {text}", width) for keys, text in KEYS]
            return _window(help_lines, state, room)


def _head(scene: TopScene, state: TopState, width: int, *, coloured: bool) -> list[str]:
    use = total_use(scene.sites)
    title = f"koala top  {scene.address}  as {scene.user}"
    grid = (
        f"{len(scene.sites)} sites, {use.processors} processors: {use.running} running,"
        f" {use.waiting} held, {use.others} local users, {use.idle} idle"
    )
    phases = ", ".join(f"{count:,} {phase}" for phase, count in scene.counts.items())
    jobs = f"{scene.known:,} jobs: {phases or 'none'}"
    lines = [cut(clean(text), width) for text in (title, grid, jobs + _choice(scene, state))]
    if coloured:
        lines[0] = f"{BOLD}{lines[0]}{PLAIN}"
    if scene.trouble:
        text = cut(clean(f"! not current: {scene.trouble}"), width)
        lines.append(f"{RED}{text}{PLAIN}" if coloured else text)
    return [*lines, ""]


def _choice(scene: TopScene, state: TopState) -> str:
    """Describe which jobs are listed and in which order, if not all in the usual one."""
    order = f"by {state.order}" if state.order is not Order.NEWEST else ""
    under_way = "" if state.has_ended else "under way"
    words = f"filter {state.words!r}" if state.words else ""
    chosen = ", ".join(filter(None, (words, under_way, order)))
    return f"; {len(scene.jobs):,} listed: {chosen}" if chosen else ""


def _foot(state: TopState, width: int, *, coloured: bool) -> list[str]:
    match state.prompt:
        case Prompt.FILTER:
            text = f"filter: {state.words}_   (enter keeps it, esc drops it)"
        case Prompt.CANCEL:
            text = f"cancel {state.chosen}? y cancels it, any other key does not"
        case Prompt.NONE:
            text = clean(state.message) or HINTS[state.view]
    text = cut(text, width)
    return ["", f"{REVERSED}{text:<{width}}{PLAIN}" if coloured else text]


def _grid(scene: TopScene, state: TopState, width: int, room: int, *, coloured: bool) -> list[str]:
    sites = _sites(scene, width, max(3, room // 3), coloured=coloured)
    jobs = _jobs(scene, state, width, max(2, room - len(sites) - 1), coloured=coloured)
    return [*sites, "", *jobs]


def _sites(scene: TopScene, width: int, room: int, *, coloured: bool) -> list[str]:
    """Draw sites; where there is no room for all, those with trouble and with claims first."""
    heads = (
        column("SITE", "site"),
        column("STATE", lambda site: site_cells(site).state),
        column("USE", bar, rank=2),
        column(">RUNNING", lambda site: use_of(site).running),
        column(">HELD", lambda site: use_of(site).waiting),
        column(">LOCAL", lambda site: use_of(site).others, rank=1),
        column(">IDLE", lambda site: use_of(site).idle),
        column("TROUBLE", trouble, is_optional=True),
    )
    shown = list(scene.sites)
    if len(shown) > room - 1:
        shown.sort(key=lambda site: (site.state == "usable", -site.claimed))
        shown = shown[: room - 2]
    lines = table(heads, shown, Screen(width, coloured)).split("\n")[: len(shown) + 1]
    more = len(scene.sites) - len(shown)
    return [*lines, f"and {more:,} more sites"] if more else lines


def bar(site: SiteStatus) -> str:
    """Draw the use of a site's processors; each use has at least one sign."""
    use = use_of(site)
    whole = max(1, use.processors)
    text = ""
    for name, sign in SIGNS.items():
        count: int = getattr(use, name)
        text += sign * max(round(BAR * count / whole), 1 if count else 0)
    return f"[{text[:BAR]:<{BAR}}]"


def _jobs(scene: TopScene, state: TopState, width: int, room: int, *, coloured: bool) -> list[str]:
    heads = (
        column("JOB", "job"),
        column("PHASE", "phase"),
        column(">SIZE", "processors", rank=1),
        column("NAME", _name, rank=4),
        column("USER", "owner", rank=6),
        column("SITES", "sites", rank=5),
        column(">WAITED", lambda job: duration(waited_s(job, scene.now_at)), rank=2),
        column(">RAN", lambda job: _ran(job, scene.now_at), rank=3),
        column("REASON", "reason", rank=7, is_optional=True),
    )
    chosen = next((at for at, job in enumerate(scene.jobs) if job.job == state.chosen), 0)
    rows = room - 1
    first = max(0, min(chosen - rows // 2, len(scene.jobs) - rows))
    shown = scene.jobs[first : first + rows]
    text = table(heads, shown, Screen(width - 2, coloured))
    lines = text.split("\n")[: len(shown) + 1]
    marked = [f"  {lines[0]}"]
    for job, line in zip(shown, lines[1:], strict=True):
        is_chosen = job.job == state.chosen
        drawn = f"{'>' if is_chosen else ' '} {line}"
        marked.append(f"{REVERSED}{drawn}{PLAIN}" if is_chosen and coloured else drawn)
    if not shown:
        marked.append("  no job fits the filter" if state.words else "  no jobs")
    return marked


def _name(job: JobSummary) -> str:
    programs = ", ".join(program.rpartition("/")[2] for program in job.programs)
    return cut(job.name or programs, 16)


def _ran(job: JobSummary, now_at: float) -> str:
    if job.started_at is None:
        return NOTHING
    until = now_at if job.ended_at is None else float(job.ended_at)
    return duration(max(0.0, until - float(job.started_at)))


def _window(lines: list[str], state: TopState, room: int, *, is_at_end: bool = False) -> list[str]:
    """Cut out the lines that are scrolled to; keep the scroll within the text."""
    most = max(0, len(lines) - room)
    low, high = (-most, 0) if is_at_end else (0, most)
    state.scroll = max(low, min(high, state.scroll))
    first = (most if is_at_end else 0) + state.scroll
    return lines[first : first + room]
