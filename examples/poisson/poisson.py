"""Poisson's equation on the unit square, over several clusters at once (KOALA 4.1).

Solves -(u_xx + u_yy) = f with u = 0 on the border, for the f whose solution is
u = sin(pi x) sin(pi y). The square is cut into adjacent vertical strips of equal width, one for
each component, and each strip into a pattern of rectangles of equal size, one for each process of
the component. Red-black successive over-relaxation: after each half sweep, neighbours exchange the
values along their common side, within a site and across sites alike; every few sweeps the residual
is reduced along a tree of all ranks.

The point values do not depend on how the square was cut, so any number of components and processes
gives the same iterations and the same error.

Exit status: 0 when the largest error is within pi^4 h^2 / 48, the bound of the five-point scheme
for this solution; 1 when it is not, or when a process cannot be reached or is lost; 2 for wrong
usage. Rank 0 writes result.json in its working folder.
"""

from __future__ import annotations

import argparse
import json
import math
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rendezvous import Channel, Rendezvous, RendezvousError, transfer

_NUMBER = struct.Struct("!d")
_RED, _BLACK = 0, 1


class UnsolvedError(Exception):
    """The iteration diverged or did not converge in time, or the problem cannot be cut so fine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """The grid points of one rank: rows and columns of the interior, counted from 0."""

    rank: int
    rows: range
    columns: range


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Describe the overlap with one neighbour, as places in the array with its one-point frame."""

    rank: int
    mine: tuple[slice, slice]
    theirs: tuple[slice, slice]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Report the end of one solve; the same on all ranks."""

    iterations: int
    residual: float
    max_error: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Solve, check, report; the return value is the exit status."""
    options = _options(arguments)
    rank = "?"
    try:
        world = Rendezvous.from_environment("poisson")
        rank = str(world.rank)
        return _run(world, options)
    except (RendezvousError, UnsolvedError, OSError) as error:
        sys.stderr.write(f"poisson: rank {rank}: {error}\n")
        return 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Poisson's equation over several clusters.")
    parser.add_argument(
        "--grid", type=_positive, default=96, metavar="N", help="interior points a side (96)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-6,
        help="largest residual, relative to the right-hand side (1e-6)",
    )
    parser.add_argument("--repeat", type=_positive, default=1, help="solve this often (1)")
    parser.add_argument("--check-every", type=_positive, default=10, help="sweeps a check (10)")
    parser.add_argument("--iterations-max", type=_positive, default=20_000, help="(20000)")
    parser.add_argument("--timeout", type=float, default=60.0, help="longest wait in s (60)")
    parser.add_argument(
        "--border",
        type=float,
        default=0.0,
        help="value on the border (0); any other one makes the check fail, to see that it can",
    )
    options = parser.parse_args(arguments)
    if not 0 < options.tolerance < 1:
        parser.error(f"--tolerance {options.tolerance}: a number between 0 and 1 is allowed")
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        message = f"{text}: a positive number is allowed"
        raise argparse.ArgumentTypeError(message)
    return number


def _run(world: Rendezvous, options: argparse.Namespace) -> int:
    input_bytes = world.input_path.stat().st_size if world.input_path else None
    pieces = rectangles(options.grid, [member.processes for member in world.members])
    own = pieces[world.rank]
    sides = neighbours(own, pieces)
    tree = tree_peers(world.rank, world.world_size)
    channels = world.meet([*(side.rank for side in sides), *tree], timeout_s=options.timeout)
    sys.stdout.write(
        f"{world.describe(world.rank)}: rows {own.rows.start}-{own.rows.stop - 1}, columns "
        f"{own.columns.start}-{own.columns.stop - 1}, {len(sides)} neighbours\n"
    )
    sys.stdout.flush()
    world_tree = Tree(world.rank, channels, timeout_s=options.timeout)
    began_at = time.monotonic()
    solver = Solver(
        own,
        points=options.grid,
        border=options.border,
        sides=sides,
        channels=channels,
        timeout_s=options.timeout,
    )
    solution = solve(solver, world_tree, options)
    for _ in range(1, options.repeat):
        solution = solve(solver, world_tree, options)
    seconds = time.monotonic() - began_at
    bound = error_bound(options.grid)
    is_right = solution.max_error <= bound
    if world.rank == 0:
        report = {
            **asdict(solution),
            "error_bound": bound,
            "ok": is_right,
            "seconds": round(seconds, 6),
            "solves": options.repeat,
            "grid": options.grid,
            "ranks": world.world_size,
            "sites": [member.site for member in world.members],
            "input_bytes": input_bytes,
        }
        _write(Path("result.json"), report)
        sys.stdout.write(
            f"{solution.iterations} iterations, residual {solution.residual:.2e}, largest error "
            f"{solution.max_error:.3e}, bound {bound:.3e}: {'right' if is_right else 'WRONG'}\n"
        )
    if not is_right:
        sys.stderr.write(
            f"poisson: rank {world.rank}: largest error {solution.max_error:.3e} exceeds the bound "
            f"{bound:.3e}\n"
        )
    return 0 if is_right else 1


def _write(path: Path, report: Mapping[str, object]) -> None:
    """Write whole or not at all: the file is collected by somebody else."""
    draft = path.with_suffix(".partial")
    draft.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    draft.replace(path)


def error_bound(points: int) -> float:
    """h^2/96 * (max|u_xxxx| + max|u_yyyy|), both pi^4 for this solution."""
    return math.pi**4 / 48 / (points + 1) ** 2


# --- how the square is cut ---


def rectangles(points: int, processes: Sequence[int]) -> tuple[Rectangle, ...]:
    """One rectangle a rank: a vertical strip for each component, a pattern inside each strip."""
    pieces: list[Rectangle] = []
    for strip, count in zip(cut(range(points), len(processes)), processes, strict=True):
        rows, columns = pattern(height=points, width=len(strip), processes=count)
        for row_range in cut(range(points), rows):
            for column_range in cut(strip, columns):
                piece = Rectangle(rank=len(pieces), rows=row_range, columns=column_range)
                pieces.append(piece)
    if any(not piece.rows or not piece.columns for piece in pieces):
        message = f"a grid of {points} x {points} points cannot be cut for {len(pieces)} processes"
        raise UnsolvedError(message)
    return tuple(pieces)


def cut(whole: range, parts: int) -> list[range]:
    """Cut a range into adjacent ones whose lengths differ by at most one."""
    marks = [whole.start + len(whole) * part // parts for part in range(parts + 1)]
    return [range(start, stop) for start, stop in pairwise(marks)]


def pattern(*, height: int, width: int, processes: int) -> tuple[int, int]:
    """Rows and columns of rectangles with the shortest circumference: least to exchange."""
    divisors = [rows for rows in range(1, processes + 1) if processes % rows == 0]
    shapes = [(rows, processes // rows) for rows in divisors]
    return min(shapes, key=lambda shape: height / shape[0] + width / shape[1])


def neighbours(own: Rectangle, pieces: Sequence[Rectangle]) -> tuple[Side, ...]:
    """The sides that a rectangle has in common with others.

    Strips may be cut at different heights, so a side can belong to several neighbours.
    """
    sides: list[Side] = []
    height, width = len(own.rows), len(own.columns)
    for piece in pieces:
        rows = _common(own.rows, piece.rows)
        columns = _common(own.columns, piece.columns)
        if rows is not None and piece.columns.stop == own.columns.start:
            places = (rows, _line(1)), (rows, _line(0))
        elif rows is not None and piece.columns.start == own.columns.stop:
            places = (rows, _line(width)), (rows, _line(width + 1))
        elif columns is not None and piece.rows.stop == own.rows.start:
            places = (_line(1), columns), (_line(0), columns)
        elif columns is not None and piece.rows.start == own.rows.stop:
            places = (_line(height), columns), (_line(height + 1), columns)
        else:
            continue
        sides.append(Side(rank=piece.rank, mine=places[0], theirs=places[1]))
    return tuple(sides)


def _common(own: range, other: range) -> slice | None:
    """Return the overlap of two ranges as a place in the first one's local array, or None."""
    start, stop = max(own.start, other.start), min(own.stop, other.stop)
    return slice(start - own.start + 1, stop - own.start + 1) if start < stop else None


def _line(index: int) -> slice:
    return slice(index, index + 1)


# --- the computation ---


class Solver:
    """The values of one rectangle and the exchange with its neighbours."""

    def __init__(
        self,
        own: Rectangle,
        *,
        points: int,
        border: float,
        sides: Sequence[Side],
        channels: Mapping[int, Channel],
        timeout_s: float,
    ) -> None:
        spacing = 1.0 / (points + 1)
        self._over_relaxation = 2.0 / (1.0 + math.sin(math.pi * spacing))
        # The sines of the whole side, then a cut: the same bits whatever the pattern.
        sines = np.sin(np.pi * spacing * np.arange(1, points + 1))
        self._exact = np.outer(
            sines[own.rows.start : own.rows.stop], sines[own.columns.start : own.columns.stop]
        )
        self._scaled_source = 2.0 * np.pi**2 * spacing**2 * self._exact
        self.source_max = 2.0 * math.pi**2
        self._spacing = spacing
        parity = np.add.outer(np.arange(*_ends(own.rows)), np.arange(*_ends(own.columns))) % 2
        self._colours = tuple((parity == colour).astype(np.float64) for colour in (_RED, _BLACK))
        self._border = border
        self._values = np.zeros((len(own.rows) + 2, len(own.columns) + 2))
        self._links = [(side, channels[side.rank]) for side in sides]
        self._timeout_s = timeout_s
        self.reset()

    def reset(self) -> None:
        """Back to the first guess; what lies outside the square has the border's value."""
        self._values[:] = self._border
        self._values[1:-1, 1:-1] = 0.0
        self.exchange()

    def sweep(self) -> None:
        """One iteration: the red points from the black ones, then the black from the red."""
        inner = self._values[1:-1, 1:-1]
        for colour in self._colours:
            inner += self._over_relaxation * colour * self._defect()
            self.exchange()

    def exchange(self) -> None:
        """Give each neighbour the values along the common side and take its own."""
        frames = transfer(
            send={channel: self._values[side.mine].tobytes() for side, channel in self._links},
            receive=[channel for _, channel in self._links],
            timeout_s=self._timeout_s,
        )
        for side, channel in self._links:
            place = self._values[side.theirs]
            received = np.frombuffer(frames[side.rank])
            if received.size != place.size:
                raise channel.lost(f"it sent {received.size} values, not {place.size}")
            place[:] = received.reshape(place.shape)

    def residual(self) -> float:
        """Largest |f - A u| of this rectangle."""
        return 4.0 / self._spacing**2 * float(np.max(np.abs(self._defect())))

    def error(self) -> float:
        """Largest difference from the analytic solution in this rectangle."""
        return float(np.max(np.abs(self._values[1:-1, 1:-1] - self._exact)))

    def _defect(self) -> NDArray[np.float64]:
        """Gauss-Seidel's new value less the present one, at every point."""
        values = self._values
        around = values[:-2, 1:-1] + values[2:, 1:-1] + values[1:-1, :-2] + values[1:-1, 2:]
        defect: NDArray[np.float64] = 0.25 * (around + self._scaled_source) - values[1:-1, 1:-1]
        return defect


def solve(solver: Solver, tree: Tree, options: argparse.Namespace) -> Solution:
    """Sweep until the residual of the whole square is small."""
    solver.reset()
    residual = math.inf
    for iteration in range(1, options.iterations_max + 1):
        solver.sweep()
        if iteration % options.check_every and iteration != options.iterations_max:
            continue
        residual = tree.maximum(solver.residual())
        if not math.isfinite(residual):
            raise UnsolvedError(f"diverged at iteration {iteration}: residual {residual}")
        if residual <= options.tolerance * solver.source_max:
            error = tree.maximum(solver.error())
            return Solution(iterations=iteration, residual=residual, max_error=error)
    message = f"residual {residual:.2e} after {options.iterations_max} iterations"
    raise UnsolvedError(message)


class Tree:
    """A binary tree over the ranks: values go up to rank 0, the result comes down."""

    def __init__(self, rank: int, channels: Mapping[int, Channel], *, timeout_s: float) -> None:
        parent = (rank - 1) // 2
        self._parent = channels[parent] if rank > 0 else None
        self._children = [
            channels[child] for child in (2 * rank + 1, 2 * rank + 2) if child in channels
        ]
        self._timeout_s = timeout_s

    def maximum(self, value: float) -> float:
        """The largest value of all ranks, the same on each; not a number if one is not."""
        below = transfer(send={}, receive=self._children, timeout_s=self._timeout_s)
        numbers = [value, *(_NUMBER.unpack(frame)[0] for frame in below.values())]
        largest = float(np.max(numbers))
        if self._parent is not None:
            answer = transfer(
                send={self._parent: _NUMBER.pack(largest)},
                receive=[self._parent],
                timeout_s=self._timeout_s,
            )
            largest = _NUMBER.unpack(answer[self._parent.rank])[0]
        frames = {child: _NUMBER.pack(largest) for child in self._children}
        transfer(send=frames, receive=[], timeout_s=self._timeout_s)
        return largest


def tree_peers(rank: int, world_size: int) -> list[int]:
    """The ranks next to this one in the tree."""
    peers = [(rank - 1) // 2] if rank > 0 else []
    return peers + [child for child in (2 * rank + 1, 2 * rank + 2) if child < world_size]


def _ends(numbers: range) -> tuple[int, int]:
    return numbers.start, numbers.stop


if __name__ == "__main__":
    sys.exit(main())
