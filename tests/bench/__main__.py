"""Measure Koala beside references of the same run; print a table, and write JSON.

Status 1 when a limit is missed, 124 when --limit ended the run. Alone on a machine the figures say
something; beside other work only the ratios to the references do. INT and TERM end the grid, too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from koala.common.runtime.atomic_file import write_atomically
from koala.common.runtime.child_lifetime import end_once, ended_by
from tests.bench import core, forwarding, live, multiqueue, peers, references, starts, traces
from tests.bench.figures import Figure, Measurement, columns, document, machine, table

MEASUREMENTS: dict[str, Measurement] = {
    "references": references.measure,
    "peers": peers.measure,
    "scan": core.measure,
    "submissions": live.submissions,
    "command": starts.command,
    "starts": starts.queues,
    "launches": live.launches,
    "costs": live.costs,
    "latency": live.latency,
    "barrier": live.barrier,
    "forwarding": forwarding.measure,
    "thousand": live.thousand,
    "multiqueue": multiqueue.measure,
    "traces": traces.measure,
}
OUT = Path("bench-out") / "bench.json"
LIMIT_S = 3_600.0
LATE = 124
"""Exit status after the time limit, as of timeout(1)."""


def main() -> int:
    """Run the command."""
    options = parsed()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed Koala is compiled
    measurements: dict[str, Measurement] = {
        **MEASUREMENTS,
        "traces": partial(traces.measure, logs=options.log or ()),
    }
    at = datetime.now(UTC).isoformat(timespec="seconds")  # the machine's load, too, is of now
    before = machine()
    figures: list[Figure] = []
    signal.signal(signal.SIGALRM, lambda _number, _frame: sys.exit(LATE))
    signal.setitimer(signal.ITIMER_REAL, options.limit)
    # Removed at the end alone: some file systems search recently deleted files for each new one.
    with tempfile.TemporaryDirectory(prefix="koala-bench-") as root:
        for number, name in enumerate(options.only or MEASUREMENTS):
            sys.stderr.write(f"bench: {name}\n")
            folder = Path(root, str(number))
            folder.mkdir()
            figures += measurements[name](folder, options.quick)
    signal.setitimer(signal.ITIMER_REAL, 0)
    result = {**document(figures, at=at, is_quick=options.quick), "machine": before}
    text = json.dumps(result, indent=2) + "\n"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out, text)
    if options.json:
        print(text, end="")
    elif options.markdown:
        words = "python -m tests.bench" + " --quick" * options.quick
        print(f"Measured at {at}, `{words}`, {described(before)}:\n\n{table(figures)}", end="")
    else:
        print(f"{at}, {described(before)}\n\n{columns(figures)}", end="")
    sys.stderr.write(f"bench: written to {options.out}\n")
    return 0 if all(figure.holds for figure in figures) else 1


def parsed() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller numbers, some minutes")
    parser.add_argument("--only", choices=tuple(MEASUREMENTS), action="append", help="just these")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help=f"({OUT})")
    parser.add_argument(
        "--log", type=Path, action="append", help="replay these logs, not a synthetic one"
    )
    parser.add_argument(
        "--limit", type=float, default=LIMIT_S, metavar="SECONDS",
        help=f"end the run after so long ({LIMIT_S:g})",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print what is written")
    form.add_argument("--markdown", action="store_true", help="print a table for docs/bench.md")
    return parser.parse_args()


def described(found: Mapping[str, Any]) -> str:
    """Describe the machine and its load in a line."""
    load = ", ".join(f"{value:g}" for value in found["load_before"])
    return (
        f"{found['processors']} processors, {found['memory_gb']} GB, {found['system']},"
        f" Python {found['python']}, load before {load}"
    )


if __name__ == "__main__":
    # Later signals are ignored: `timeout make bench` sends TERM twice, and the second one would
    # interrupt the end of the grid.
    end_once(ended_by)
    sys.exit(main())
