"""`koala convert`: write a job description in another form: RSL, YAML or JSON."""

from __future__ import annotations

from collections.abc import Sequence

import click

from koala.cli.arguments import (
    OneOf,
    SourceError,
    define_option,
    definitions_of,
    option,
    read_text,
    source_argument,
)
from koala.errors import SpecError


@click.command
@source_argument()
@option("--to", type=OneOf(("rsl", "yaml", "json")), required=True, help="Form of the result.")
@define_option
def convert(*, source: str, to: str, define: Sequence[str]) -> None:
    """Convert a job description between RSL, YAML and JSON.

    The result describes the same job. Variables of RSL are replaced by their values; comments are
    not kept.
    """
    from koala.job_descriptions import evaluated_tree, write_document, write_job
    from koala.job_descriptions.job_reader import read_tree

    text = read_text(source)
    try:
        tree = evaluated_tree(text, definitions_of(text, source, define))
        spec = read_tree(tree).spec
        converted = write_job(spec) if to == "rsl" else write_document(tree, as_json=to == "json")
    except SpecError as error:
        raise SourceError(source, error) from error
    print(converted, end="")
