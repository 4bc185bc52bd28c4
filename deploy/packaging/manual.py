"""Manual pages from docs/cli.md, which a test keeps equal to the help of the commands.

The build of a wheel has none of Koala's dependencies, so it reads the document, not the commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SECTION = re.compile(r"^## (koala[^\n]*)\n\n```text\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^(?:  (?=Examples))?([A-Za-z ]+):$")
ROW = re.compile(r"^  (?P<term>\S(?:.*?\S)?)(?:  +(?P<text>\S.*))?$")


def manual_pages(document: str, *, version: str) -> dict[str, str]:
    """Make the pages: for each file name (`koala-run.1`) its text in the language of man."""
    found = dict(SECTION.findall(document))
    pages = {_file_name(name): page(name, text, version) for name, text in found.items()}
    rows = [(name, _description(text)[0].partition(". ")[0]) for name, text in found.items()]
    pages["koala.1"] = _overview(rows, version)
    return pages


def page(name: str, text: str, version: str) -> str:
    """Make the page of one command from its help text."""
    usage, _, rest = text.partition("\n\n")
    usage = " ".join(usage.split()).partition(" ")[2]
    summary = _description(text)[0].partition(". ")[0]
    lines = [*_head(name, summary, version), ".SH SYNOPSIS", escaped(usage), ".SH DESCRIPTION"]
    lines += _body(rest.splitlines())
    lines += [".SH SEE ALSO", r"\fBkoala\fR(1)"]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Protect what man would read as a request or as typography."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


def _body(lines: list[str]) -> Iterator[str]:
    """Translate description, arguments and options."""
    in_rows = in_examples = False
    for line in lines:
        if found := HEADING.match(line):
            in_rows, in_examples = True, found[1] == "Examples"
            yield f".SH {found[1].upper()}"
        elif not line.strip():
            yield ".PP"
        elif in_examples:
            yield from (escaped(line.strip()), ".br")
        elif in_rows and (row := ROW.match(line)):
            yield ".TP"
            yield rf"\fB{escaped(row['term'])}\fR"
            if row["text"]:
                yield escaped(row["text"])
        elif not in_rows and re.search(r"\S  +\S", line):  # a table
            yield from (".br", escaped(line.strip()))
        else:
            yield escaped(line.strip())


def _description(text: str) -> list[str]:
    """Return the paragraphs between usage and options."""
    paragraphs = text.split("\n\n")[1:]
    return [" ".join(one.split()) for one in paragraphs if not HEADING.match(one.splitlines()[0])]


def _head(name: str, summary: str, version: str) -> list[str]:
    file_name = _file_name(name).removesuffix(".1")
    return [
        f'.TH "{file_name.upper()}" "1" "" "Koala {version}" "Koala Manual"',
        ".SH NAME",
        rf"{escaped(file_name)} \- {escaped(summary.rstrip('.'))}",
    ]


def _overview(rows: list[tuple[str, str]], version: str) -> str:
    """Make the page koala(1): all commands with their summaries."""
    lines = _head("koala", "start the parts of one job on several clusters at once", version)
    lines += [".SH SYNOPSIS", r"\fBkoala\fR COMMAND [OPTIONS] ...", ".SH COMMANDS"]
    for name, summary in rows:
        lines += [".TP", rf"\fB{escaped(_file_name(name).removesuffix('.1'))}\fR(1)"]
        lines.append(escaped(summary))
    return "\n".join(lines) + "\n"


def _file_name(name: str) -> str:
    return f"{name.replace(' ', '-')}.1"
