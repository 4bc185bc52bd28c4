"""Two components on unequally loaded processors, with and without synchronous queuing.

    python examples/sq/demonstrate.py [--work 8] [--seconds 120] [--out DIR]

Brings up the two sites of `two.toml`, gives the processor of the busy one three rivals for each
process that is there already, runs the job of `sq.rsl` freely and controlled, and compares the
processor-seconds that the components themselves printed: the skew is the difference at one instant,
while both run. Writes skew.svg and skew.json.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from pathlib import Path

from koala.client import AsyncClient

HERE = Path(__file__).resolve().parent
LIMIT_S = 60.0
RIVALS = 3


def main() -> None:
    """Both runs, the figures, the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=float, default=8.0, help="processor-seconds of each")
    parser.add_argument("--seconds", type=float, default=120.0, help="at most, of each run")
    parser.add_argument("--out", type=Path, default=Path("sq"), help="where to write")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    processors = sorted(os.sched_getaffinity(0))
    quiet, busy = processors[0], processors[-1]
    with (
        tempfile.TemporaryDirectory(prefix="koala-sq-") as folder,
        grid(Path(folder)) as address,
        rivals(busy),
    ):
        skews = asyncio.run(runs(address, asked, quiet, busy))
    found = {name: figures(points) for name, points in skews.items()}
    ratio = {key: found["free"][key] / max(found["sq"][key], 0.01) for key in ("mean_s", "last_s")}
    document = {"work": asked.work, **found, "reduction": ratio, "skews": skews}
    (asked.out / "skew.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    draw(skews, asked.out / "skew.svg")
    print(f"{'skew, processor-seconds':<28}{'mean':>8}{'largest':>10}{'at the end':>12}")
    for name, words in (("free", "without control"), ("sq", "synchronous queuing")):
        f = found[name]
        print(f"{words:<28}{f['mean_s']:>8.2f}{f['largest_s']:>10.2f}{f['last_s']:>12.2f}")
    print(f"reduced {ratio['mean_s']:.1f} times in the mean, {ratio['last_s']:.1f} at the end")
    print(asked.out / "skew.svg")


@contextlib.contextmanager
def grid(folder: Path):
    """`koala up two.toml`; the daemon's address."""
    log = folder / "log"
    command = [sys.executable, "-m", "koala.cli", "up", str(HERE / "two.toml")]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--any-port", "--state", str(folder / "state")], stdout=file, stderr=file
        )
    try:
        begun = time.monotonic()
        while not (found := list(folder.glob("state/**/endpoint"))):
            if process.poll() is not None or time.monotonic() - begun > LIMIT_S:
                raise SystemExit(f"the grid did not come up:\n{log.read_text()}")
            time.sleep(0.1)
        yield found[0].read_text(encoding="utf-8").strip()
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def rivals(processor: int):
    """Others on this processor, as a site's own users are."""
    others = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    program = f"import os\nos.sched_setaffinity(0, {{{processor}}})\nwhile True: pass"
    processes = [  # in sessions of their own: Linux gives each session the same share
        subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
        for _ in range(RIVALS + round(2 * others))
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def runs(address: str, asked: argparse.Namespace, quiet: int, busy: int):
    """The skew over time of a run without and with control."""
    rsl = (HERE / "sq.rsl").read_text(encoding="utf-8")
    skews = {}
    async with AsyncClient(address) as client:
        async for _ in client.watch(after=0):
            if len([site for site in await client.sites() if site["state"] == "usable"]) == 2:
                break
        for progress in ("free", "sq"):
            print(f"running with progress={progress}", file=sys.stderr)
            submitted = await client.submit(
                rsl,
                definitions={
                    "HERE": str(HERE),
                    "PROGRESS": progress,
                    "WORK": f"{asked.work:g}",
                    "SECONDS": f"{asked.seconds:g}",
                    "QUIET_SITE": "quiet",
                    "BUSY_SITE": "busy",
                    "QUIET": str(quiet),
                    "BUSY": str(busy),
                },
            )
            phase = await client.wait(submitted.job)
            if phase != "Finished":
                raise SystemExit(
                    f"the job has {phase}: {(await client.show(submitted.job))['reason']}"
                )
            lines = {0: b"", 1: b""}  # by component
            async for part in client.logs(submitted.job, stream="stdout"):
                lines[part.component] += part.data
            skews[progress] = skew(series(lines[0]), series(lines[1]))
    return skews


def series(log: bytes):
    """(instant, processor-seconds), as a component printed them."""
    return [tuple(map(float, line.split())) for line in log.decode().splitlines()]


def skew(one, other):
    """(seconds since both have begun, difference of their work), while both run."""
    start, end = max(one[0][0], other[0][0]), min(one[-1][0], other[-1][0])
    instants = [start + step * 0.25 for step in range(int((end - start) / 0.25) + 1)]
    return [(at - start, abs(work_at(one, at) - work_at(other, at))) for at in instants]


def work_at(points, at):
    """The work at an instant, between what was printed before and after it."""
    after = min(len(points) - 1, max(1, bisect_right(points, (at, float("inf")))))
    (t0, w0), (t1, w1) = points[after - 1], points[after]
    return w0 + (w1 - w0) * (at - t0) / (t1 - t0) if t1 > t0 else w1


def figures(points):
    """Summarise the skew over time."""
    values = [value for _, value in points]
    return {
        "mean_s": sum(values) / len(values),
        "largest_s": max(values),
        "last_s": values[-1],
    }


def draw(skews, path: Path) -> None:
    """Both runs in one picture."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(6, 3.5), layout="constrained")
    axes = drawing.subplots()
    for name, words, colour in (
        ("free", "without control", "#ee6677"),
        ("sq", "synchronous queuing", "#4477aa"),
    ):
        axes.plot(*zip(*skews[name], strict=True), label=words, color=colour)
    axes.set_xlabel("seconds since the start")
    axes.set_ylabel("skew, processor-seconds")
    axes.set_ylim(bottom=0)
    axes.legend()
    drawing.savefig(path)


if __name__ == "__main__":
    main()
