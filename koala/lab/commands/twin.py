"""`koala twin`: recorded jobs of clusters, and what co-allocation would have done to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from koala.cli.arguments import OneOf, examples, file, json_option, option
from koala.cli.extras import needs_sim
from koala.cli.lazy_group import LazyGroup
from koala.cli.output import is_json, note
from koala.common.runtime.option_values import Bounds
from koala.common.runtime.progress_bar import progress
from koala.errors import ConfigError
from koala.lab.commands import simulation_options as shared
from koala.lab.commands.options import Place, campaign_options, given, with_options
from koala.lab.sim.options import Declared
from koala.lab.twin.questions import Stream
from koala.views.units import counted

if TYPE_CHECKING:
    from koala.lab.twin.folders import Twin
    from koala.lab.twin.questions import Folder
    from koala.lab.workloads import Workload

LINE_BYTES = 120
DISTINCT = "WF-distinct"
KINDS = ("sacct", "qacct")
STREAM = Declared.of(Stream)

twin = LazyGroup(
    "twin",
    {
        "": {
            "import": "koala.lab.commands.twin:import_",
            "report": "koala.lab.commands.twin:report",
        }
    },
    help="Ask recorded jobs of your clusters what co-allocation would have cost.",
)


@examples(
    "koala twin import sacct october.sacct --processors alpha=512",
    "koala twin import qacct gamma.qacct --timezone Europe/Paris",
    "koala twin import sacct october.sacct qacct gamma.qacct",
)
@click.command("import")
@click.argument(
    "kind", type=OneOf(KINDS), metavar="sacct|qacct",
    help="Command that wrote the files.",
)  # fmt: skip
@click.argument(
    "files", type=file, nargs=-1, required=True, metavar="FILE...",
    help="Recordings. Another sacct or qacct goes before those of that command.",
)  # fmt: skip
@option("--out", type=file, default=Path("twin"), metavar="DIR", help="Folder of the twin.")
@option(
    "--site", metavar="NAME",
    help="Site of records that name no cluster.", unset="the name of the file",
)  # fmt: skip
@option(
    "--processors", multiple=True, metavar="SITE=N",
    help="Processors of a site.", unset="the most that were used at a time",
)  # fmt: skip
@option(
    "--timezone", metavar="ZONE",
    help="Time zone of the clusters, such as Europe/Amsterdam.",
    unset="this machine's",
)  # fmt: skip
@json_option
@needs_sim
def import_(
    *,
    kind: str,
    files: tuple[Path, ...],
    out: Path,
    site: str | None,
    processors: tuple[str, ...],
    timezone: str | None,
) -> None:
    """Make a twin of the output of `sacct --parsable2` or `qacct -j`.

    Writes a log in the Standard Workload Format for each site, grid.toml, and import.json with all
    counts. It says what it left out, and why. The guide has the commands that make the files
    (docs/guides/twin.md).
    """
    from koala.lab.twin.folders import check_folder, document, read_recordings, write
    from koala.lab.twin.instants import zone_of

    recordings = _recordings(kind, files)
    named = _processors(processors)
    check_folder(out)
    with progress("lines of a file", max(_lines(path) for _, path in recordings)) as update:
        found = read_recordings(
            recordings, site=site, zone=zone_of(timezone), processors=named, progress=update
        )
    shared.make_out(out)
    kinds = " and ".join(dict.fromkeys(one for one, _ in recordings))
    names = [path.name for _, path in recordings]
    write(found, out, kind=kinds, sources=names)
    summary = {"folder": str(out), **document(found, kinds, names)}
    shared.show(summary, lambda: _imported(found, out))
    if not is_json():
        note(f"koala twin report {out} tells what co-allocation would have cost")


def _lines(path: Path) -> float:
    """Estimate the lines of a file, for the progress bar."""
    return path.stat().st_size / LINE_BYTES if path.is_file() else 1


def _recordings(kind: str, words: tuple[Path, ...]) -> list[tuple[str, Path]]:
    """Return each file with the command that wrote it. Raises ConfigError for a command without
    files."""
    found: list[tuple[str, Path]] = []
    for word in words:
        if str(word) in KINDS:
            kind = str(word)
        else:
            found.append((kind, word))
    if str(words[-1]) in KINDS:
        raise ConfigError(f"{kind} without a file (expected one or more files after it)")
    return found


def _processors(texts: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not (name and number.isdecimal() and len(number) < 10 and int(number)):
            raise ConfigError(f"--processors {text} (expected SITE=N, for instance alpha=512)")
        if name in found:
            raise ConfigError(
                f"--processors {text}: {name} has {found[name]} already (expected each site once)"
            )
        found[name] = int(number)
    return found


def _imported(found: Twin, out: Path) -> str:
    from koala.lab.twin.durations import duration

    period = duration(found.until_at - found.begin_at)
    lines = [*found.counts.lines(), f"{period} from the first submission to the last end"]
    for site in found.sites:
        source = "as given" if site.is_given else "the most used at a time; --processors sets them"
        used = f"{100 * found.utilization(site):.0f} % of {counted(site.processors, 'processor')}"
        lines.append(f"{site.name}: {counted(len(site.jobs), 'job')} used {used}, {source}")
    return "\n".join([*lines, str(out)])


@examples(
    "koala twin report twin --components 3 --processors 32 --every 7200",
    "koala twin report twin --jobs mine.swf --out answer.md",
)
@click.command("report")
@click.argument("folder", type=file, metavar="DIR", help="Folder of `koala twin import`.")
@with_options(STREAM.options)
@option("--jobs", type=file, metavar="LOG", help="Your own jobs instead: a log (SWF or GWF).")
@option(
    "--split", default="equal", metavar="RULE",
    help="Jobs of a log that no site could hold: equal, fill, or the most processors of a"
    " component.",
)  # fmt: skip
@option(
    "--placement", metavar="NAME", help="Placement policy.",
    unset="WF-distinct, each component at a site of its own; with --jobs that of grid.toml",
)  # fmt: skip
@given("seed", "reps", bounds=Bounds(low=2))
@option("--out", type=file, metavar="FILE.md", help="Write the page there, too.")
@campaign_options
@json_option
@needs_sim
def report(
    *,
    folder: Path,
    jobs: Path | None,
    split: str,
    placement: str | None,
    reps: int,
    seed: int,
    out: Path | None,
    place: Place,
    **values: Any,  # noqa: ANN401 - declared options
) -> None:
    """Report what co-allocation would have cost on the clusters of a twin.

    The recorded jobs are run again on their sites, alone and with co-allocated jobs in addition.
    One page says whether those would have started, what holding would have cost, and how much
    longer the sites' own users would have waited.
    """
    from dataclasses import replace

    from koala.common.runtime.atomic_file import write_atomically
    from koala.lab import Jobs, Log
    from koala.lab.sweeps import sweep
    from koala.lab.twin.answers import answer, document, page
    from koala.lab.twin.questions import read_folder, with_jobs, without

    if out is not None:
        shared.check_output("out", out)
    options = place.for_sweep()
    found = read_folder(folder)
    workload: Workload
    if jobs is None:
        stream = STREAM.make(**STREAM.values(values), period_s=float(found.period_s))
        workload, question = Jobs(stream, name=str(stream)), str(stream)
        placement = placement or DISTINCT
        _check_sizes(found, stream, placement)
    else:
        workload, question = Log(jobs), f"the jobs of {jobs.name}"
    experiment = replace(with_jobs(found, workload, split=split), placement=placement)
    alone = sweep(without(found), reps=1, seed=1, **options)
    if alone.is_interrupted:
        shared.leave(": no run has finished")
    runs = sweep(experiment, reps=reps, seed=seed, **options)
    if not runs.rows():
        shared.leave(": no run with co-allocated jobs has finished")
    answered = answer(found, question, alone.rows()[0], list(runs.rows()))
    text = page(answered)
    if out is not None:
        write_atomically(out, f"{text}\n")
    shared.show(document(answered), lambda: text, replaced=runs.replaced)
    if runs.is_interrupted:
        shared.leave(f": {len(runs.rows())} of {counted(reps, 'run')}")


def _check_sizes(found: Folder, stream: Stream, placement: str) -> None:
    """Check that the empty sites could hold a job. Raises ConfigError."""
    components, processors = stream.components, stream.processors
    rooms = [site.processors // processors for site in found.sites]
    room = (
        sum(min(room_of_site, 1) for room_of_site in rooms) if placement == DISTINCT else sum(rooms)
    )
    if room < components:
        sites = ", ".join(f"{site.name} {site.processors}" for site in found.sites)
        other = ""
        if placement == DISTINCT:
            other = "; --placement WF also puts several components at one site"
        raise ConfigError(
            f"--components {components} --processors {processors}: the empty sites ({sites}) hold"
            f" {room} such components under {placement} (expected jobs that fit{other})"
        )
