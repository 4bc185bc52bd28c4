"""The table of metrics in docs/guides/metrics.md.

python -m tests.common.metrics.document docs/guides/metrics.md        write it into the page
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from koala.common.metrics.declarations import METRICS, Label, Metric

BEGIN, END = "<!-- table of metrics -->", "<!-- end of the table -->"
VALUES_SHOWN_MAX = 14


def document_text() -> str:
    """Render the table, with a line for each metric."""
    head = ["| metric | kind | of | labels | meaning |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *(_row(metric) for metric in METRICS)])


def inserted(page: str) -> str:
    """Replace the table in a page."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{document_text()}\n\n{END}{after}"


def _row(metric: Metric) -> str:
    of = ", ".join(metric.sources)
    labels = "; ".join(_label(label) for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {of} | {labels} | {metric.help} |"


def _label(label: Label) -> str:
    values = [f"`{value}`" for value in label.values]
    if len(values) > VALUES_SHOWN_MAX:
        return f"`{label.name}`"
    if label.takes_sites and label.values:
        values.append("a site")
    return f"`{label.name}`: {', '.join(values)}" if values else f"`{label.name}`"


def main(arguments: Sequence[str]) -> None:
    """Write the table into a page."""
    (name,) = arguments
    page = Path(name)
    page.write_text(inserted(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
