"""Builders of logs: lines and files that a test names only what matters of."""

from __future__ import annotations

import gzip
from pathlib import Path

from koala.lab.workload import swf
from koala.lab.workload.logs import Log


def line(
    number: int,
    submit: object,
    run: object,
    size: object = 1,
    *,
    estimate: object = -1,
    requested: object = -1,
) -> str:
    """A job in the Standard Workload Format."""
    known = f"{number} {submit} -1 {run} {size} -1 -1 {requested} {estimate}"
    return f"{known} -1 1 -1 -1 -1 -1 -1 -1 -1"


def a_log(folder: Path, *lines: str, name: str = "log.swf") -> Log:
    """A file with these lines; gzipped when its name says so."""
    path = folder / name
    text = "".join(each + "\n" for each in lines).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return Log(path, swf.FORMAT)
