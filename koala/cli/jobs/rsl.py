"""`koala rsl`: a description as its canonical tree, to see what Koala reads in it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from koala.cli.arguments import Definitions, Source, SourceError, read_definitions, read_text
from koala.errors import SpecError

PIECES = 4096
"""How many pieces of the tree are written at once: a text of 10 MB has millions."""


def rsl(
    source: Source,
    evaluated: Annotated[
        bool, typer.Option("--eval", help="Put the values of the variables in their places.")
    ] = False,
    define: Definitions = None,
) -> None:
    """Print a description's canonical tree as JSON.

    A syntax error is shown with its place, and exits with 2. -D implies --eval.
    """
    import gc
    from itertools import islice

    from koala.rsl import evaluate, parse
    from koala.rsl.tree import canonical_pieces

    definitions = read_definitions(define)
    text = read_text(source)
    gc.disable()  # a large tree has no cycles, and looking for them takes a third of the time
    try:
        tree = parse(text)
        if evaluated or definitions:
            tree = evaluate(tree, definitions)
    except SpecError as error:
        raise SourceError(source, error) from error
    pieces = canonical_pieces(tree.root)
    while batch := list(islice(pieces, PIECES)):
        sys.stdout.write("".join(batch))
    sys.stdout.write("\n")
