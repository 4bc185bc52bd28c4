"""`koala convert`: write a job description in another form: RSL, YAML or JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from koala.cli.arguments import Definitions, Source, SourceError, read_definitions, read_text
from koala.errors import SpecError


class Form(StrEnum):
    """Forms of a job description."""

    RSL = "rsl"
    YAML = "yaml"
    JSON = "json"


def convert(
    source: Source,
    to: Annotated[Form, typer.Option("--to", help="Form of the result.")],
    define: Definitions = None,
) -> None:
    """Convert a job description between RSL, YAML and JSON.

    The result describes the same job. Variables of RSL are replaced by their values; comments are
    not kept.
    """
    from koala.rsl import evaluated_tree, unparse, write_document
    from koala.rsl.jobspec import read_tree

    definitions = read_definitions(define)
    try:
        tree = evaluated_tree(read_text(source), definitions)
        read_tree(tree)
        if to is Form.RSL:
            text = unparse(tree, pretty=True)
        else:
            text = write_document(tree, as_json=to is Form.JSON)
    except SpecError as error:
        raise SourceError(source, error) from error
    print(text, end="")
