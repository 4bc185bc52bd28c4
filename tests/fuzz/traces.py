"""Logs of jobs (SWF, GWF), gzipped or not: jobs, or a refusal that names the line."""

from __future__ import annotations

import gzip
import tempfile
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import TypeAlias

from koala.errors import WorkloadError
from koala.lab.workload import gwf, swf
from koala.lab.workload.arrivals import Arrivals
from koala.lab.workload.logs import Format, Log
from tests.fuzz.hostile_values import number, spoilt_bytes, text
from tests.fuzz.target import Target, require_readable

Case: TypeAlias = tuple[str, bytes]
FORMATS = {form.name: form for form in (swf.FORMAT, gwf.FORMAT)}
PIECES = (b" ", b"\t", b"\n", b"\r", b";", b"#", b"-1", b".", b"e", b"+", b"1e400", b"\x1f\x8b",
          b"9" * 5_000, b"\xef\xbb\xbf", b"; MaxProcs: 9\n", b"\xd9\xa3", b"nan")  # fmt: skip


def a_case(random: Random) -> Case:
    form = random.choice((*FORMATS.values(),))
    lines = [f"{form.comment} MaxProcs: {random.choice(('64', '-1', 'x', '9' * 400))}"]
    lines += [_job(random, form) for _ in range(random.randrange(6))]
    content = random.choice((b"\n", b"\n", b"\r\n", b"\r")).join(
        line.encode("utf-8", "replace") for line in lines
    )
    if random.randrange(2) == 0:
        content = spoilt_bytes(random, content, PIECES)
    if random.randrange(6) == 0:
        content = gzip.compress(content)
        if random.randrange(2) == 0:
            content = spoilt_bytes(random, content)
    return form.name, content


def _job(random: Random, form: Format) -> str:
    fields = [str(random.randrange(1, 100)) for _ in form.fields]
    for _ in range(random.choice((0, 0, 1, 2))):
        odd = str(number(random)) if random.randrange(2) else text(random)
        fields[random.randrange(len(fields))] = odd
    return " ".join(fields)


def check(case: Case) -> None:
    name, content = case
    form = FORMATS[name]
    with tempfile.NamedTemporaryFile(suffix=f".{name}") as file:
        file.write(content)
        file.flush()
        log = Log(Path(file.name), form)
        try:
            log.header().whole("MaxProcs")
            for columns in log.columns():
                assert len({len(column) for column in columns[:6]}) == 1
            for fields in log.lines():
                assert len(fields) == len(form.fields)
            arrivals = Arrivals(log, processors=64)
            jobs = [job for block in arrivals.sorted_blocks() for job in block]
            assert jobs == sorted(jobs, key=itemgetter(0))
            assert len(jobs) == arrivals.summary.kept
            assert all(0 < processors <= 64 for _, _, processors, _, _ in jobs)
        except WorkloadError as error:
            require_readable(str(error))


TARGETS = (Target(name="trace", make=a_case, check=check, share=0.5),)
