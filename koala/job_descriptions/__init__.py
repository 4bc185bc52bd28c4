"""Job descriptions: RSL 1.0, the language of Globus, and the same attributes as YAML or JSON.

    parse(text)                           -> Tree        the whole grammar, with positions
    canonical_json(tree)                  -> str         the tree as JSON
    evaluate(tree, definitions)           -> Tree        variables, concatenations become literals
    unparse(tree, pretty=False)           -> str         text that parses to the same tree
    read_job(text, definitions, owner)    -> JobReading  .spec, .warnings, .is_dry_run
    write_job(spec)                       -> str         text that reads as the same job
    evaluated_tree(text, definitions)     -> Tree        of RSL, YAML or JSON
    write_document(tree)                  -> str         the tree as YAML or JSON

An error in a text is a `SpecError` with line, column and the line itself. The modules:

lexer, parser       from a text to a `tree`; `unparse` goes back
evaluation          replace variables and concatenations
document            YAML and JSON as the same tree
scripts             batch scripts as components
attributes          the table of all attributes; `attribute_names` has their spellings
job_reader          from a tree to a JobSpec, with the tables and readers of `readers`, `fields`,
                    `job_fields`, `flexible` and `resource_fields`
job_writer          from a JobSpec to a text

Invariants:

- The time is linear in the length of the text.
- Nothing recurses, so no text is too deep.
- For any bytes the answer is a tree or a SpecError.

Absent on purpose: a limit on nesting, and the defects of the C library. docs/rsl.md lists these
with our behaviour instead.
"""

from koala.job_descriptions.document import write_document
from koala.job_descriptions.evaluation import evaluate
from koala.job_descriptions.job_reader import JobReading, evaluated_tree, read_job
from koala.job_descriptions.job_writer import write_job
from koala.job_descriptions.parser import parse
from koala.job_descriptions.tree import Tree, canonical_json
from koala.job_descriptions.unparse import unparse

__all__ = [
    "JobReading",
    "Tree",
    "canonical_json",
    "evaluate",
    "evaluated_tree",
    "parse",
    "read_job",
    "unparse",
    "write_document",
    "write_job",
]
