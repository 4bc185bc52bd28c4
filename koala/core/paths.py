"""The TCP paths that a job declares, as ports between components."""

from __future__ import annotations

from dataclasses import dataclass

from koala.core.job import JobSpec, StartType
from koala.core.values import ALL


@dataclass(frozen=True, slots=True)
class Paths:
    """(source, target, port); None is each component that starts at the barrier."""

    entries: tuple[tuple[int | None, int | None, int], ...]

    def targets(self, source: int, target: int) -> tuple[int, ...]:
        """The ports at which `source` must reach `target`. Nobody connects to itself."""
        if source == target:
            return ()
        ports = [port for a, b, port in self.entries if a in (None, source) and b in (None, target)]
        return tuple(dict.fromkeys(ports))

    def listens(self, component: int) -> tuple[int, ...]:
        """The ports at which others must reach it."""
        ports = [
            port
            for source, target, port in self.entries
            if target in (None, component) and source != component
        ]
        return tuple(dict.fromkeys(ports))


def paths_of(spec: JobSpec) -> Paths:
    """The declared paths; their names are those of components, which submission has checked."""
    names = names_of(spec)
    return Paths(
        tuple(
            (
                None if path.source == ALL else names[path.source],
                None if path.target == ALL else names[path.target],
                path.port,
            )
            for path in spec.connect
        )
    )


def names_of(spec: JobSpec) -> dict[str, int]:
    """What a declared path may call each component: its label, else its index. A label that looks
    like an index is a label.
    """
    indices = {str(index): index for index in range(len(spec.components))}
    return indices | {spec.label(index): index for index in range(len(spec.components))}


def count_of(spec: JobSpec) -> int:
    """How many connections are tried at most."""
    starting = sum(c.start_type is not StartType.NONE for c in spec.components)
    return sum(
        (starting if path.source == ALL else 1) * (starting if path.target == ALL else 1)
        for path in spec.connect
    )
