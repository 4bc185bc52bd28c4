"""`koala report`: the cost of jobs, as a table, as CSV or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from koala.cli.arguments import OneOf, daemon_options, examples, option, read_instant
from koala.cli.output import is_json, print_answer, screen
from koala.cli.requests import ask
from koala.errors import SpecError

if TYPE_CHECKING:
    from koala.views.records.accounts import ClaimReport, Report

FIGURES = (
    "jobs_finished",
    "jobs_failed",
    "jobs_cancelled",
    "claims",
    "run_s",
    "held_s",
    "wasted_s",
    "skew_median_s",
    "skew_max_s",
    "failed_claims",
    "setbacks",
    "forwarded_bytes",
)
CLAIM = (
    "claim",
    "batch_job",
    "user",
    "site",
    "processors",
    "granted_at",
    "passed_at",
    "ended_at",
    "end",
    "run_s",
    "held_s",
    "wasted_s",
    "forwarded_bytes",
)

FORMULAS = ("=", "+", "-", "@")


BY = ("user", "group", "site", "day", "job", "claim")
"""Subjects of a report's rows."""


@examples(
    "koala admin report --by user",
    "koala admin report --by site --since 2026-11-01",
)
@click.command
@option("--by", type=OneOf(BY), default="user", help="Subject of the rows; days are UTC days.")
@option("--since", metavar="INSTANT", help="Start of the period (ISO 8601).", unset="the first job")
@option("--until", metavar="INSTANT", help="End of the period (ISO 8601).", unset="now")
@option("--user", default="", metavar="USER", help="Only jobs of this user.")
@option("--site", default="", metavar="SITE", help="Only claims at this site.")
@option("--csv", is_flag=True, help="Print CSV instead of text.")
@daemon_options
def report(
    *,
    by: str,
    since: str | None,
    until: str | None,
    user: str,
    site: str,
    csv: bool,
) -> None:
    """Report the cost of jobs.

    The columns are processor-seconds run, held at the barrier, and wasted by failed claims and
    attempts; the start skew; claims that sites failed; setbacks; and bytes to ports through the
    grid. `--by claim` adds the batch systems' job ids.
    """
    if csv and is_json():
        raise SpecError("--csv and --json cannot be combined")
    first, last = read_instant("--since", since), read_instant("--until", until)
    if first is not None and last is not None and first >= last:
        raise SpecError(f"--since {since} is not before --until {until}")
    shown = ask(lambda client: client.report(by, since=first, until=last, user=user, site=site))
    if csv:
        print(csv_text(shown), end="")
        return
    from koala.cli.render.documents import report_text

    print_answer(shown, lambda: report_text(shown, screen()))


def csv_text(report: Report | ClaimReport) -> str:
    """Format the rows as CSV, with the names of the document as header.

    - The total is left out. Readers can sum it, except that a job at several sites counts at each.
    - Text that a spreadsheet would read as a formula is prefixed with an apostrophe.
    """
    import csv
    from io import StringIO

    names = CLAIM if report.by == "claim" else (report.by, *FIGURES)
    text = StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for row in report["rows"]:  # which leave out some zeros
        writer.writerow({key: _cell(row.get(key, 0)) for key in names})
    return text.getvalue()


def _cell(value: object) -> object:
    from koala.cli.render.table import clean

    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(FORMULAS) else text
