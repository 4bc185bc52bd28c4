"""`koala rsl`: print the canonical tree of a description, as Koala parses it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from koala.cli.arguments import (
    SourceError,
    define_option,
    definitions_of,
    option,
    read_text,
    source_argument,
)
from koala.errors import SpecError

PIECES = 4096
"""Pieces of the tree in one write; a text of 10 MB has millions of pieces."""


@click.command
@source_argument()
@option("--eval", "evaluated", is_flag=True, help="Substitute the values of the variables.")
@define_option
def rsl(*, source: str, evaluated: bool, define: Sequence[str]) -> None:
    """Print a description's canonical tree as JSON.

    A syntax error is shown with its line and column, and exits with 2. -D implies --eval.
    """
    import gc
    from itertools import islice

    from koala.job_descriptions import evaluate, parse
    from koala.job_descriptions.tree import canonical_pieces

    text = read_text(source)
    definitions = definitions_of(text, source, define)
    gc.disable()  # a large tree has no cycles; collecting them would take a third of the time
    try:
        tree = parse(text)
        if evaluated or define:
            tree = evaluate(tree, definitions)
    except SpecError as error:
        raise SourceError(source, error) from error
    pieces = canonical_pieces(tree.root)
    while batch := list(islice(pieces, PIECES)):
        sys.stdout.write("".join(batch))
    sys.stdout.write("\n")
