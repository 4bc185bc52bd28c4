"""`python -m tests.bench [--quick] [--only NAME] [--out FILE]`: measures, prints, writes JSON.

Status 1 when a limit is missed. Alone on a machine the figures say something; beside other work
only the ratios to the references do.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from koala.runtime.atomic_file import write_whole
from koala.runtime.child_lifetime import ended_in_order
from tests.bench import core, identity, live, multiqueue, references, traces
from tests.bench.figures import Figure, Measurement, document, machine, table

MEASUREMENTS: dict[str, Measurement] = {
    "references": references.measure,
    "scan": core.measure,
    "submissions": live.submissions,
    "identity": identity.measure,
    "launches": live.launches,
    "latency": live.latency,
    "barrier": live.barrier,
    "thousand": live.thousand,
    "multiqueue": multiqueue.measure,
    "traces": traces.measure,
}
OUT = Path("bench-out") / "bench.json"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller numbers, about a minute")
    parser.add_argument("--only", choices=tuple(MEASUREMENTS), action="append", help="just these")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help=f"({OUT})")
    parser.add_argument(
        "--log", type=Path, action="append", help="replay these logs, not a synthetic one"
    )
    options = parser.parse_args()
    measurements: dict[str, Measurement] = {
        **MEASUREMENTS,
        "traces": partial(traces.measure, logs=options.log or ()),
    }
    at = datetime.now(UTC).isoformat(timespec="seconds")  # the machine's load, too, is of now
    before = machine()
    figures: list[Figure] = []
    for name in options.only or MEASUREMENTS:
        sys.stderr.write(f"bench: {name}\n")
        with tempfile.TemporaryDirectory(prefix="koala-bench-") as folder:
            figures += measurements[name](Path(folder), options.quick)
    result = {**document(figures, at=at, is_quick=options.quick), "machine": before}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.out, json.dumps(result, indent=2) + "\n")
    print(f"{at}, {before}\n\n{table(figures)}", end="")
    sys.stderr.write(f"bench: written to {options.out}\n")
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    with ended_in_order():
        sys.exit(main())
