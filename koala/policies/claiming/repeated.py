"""The Repeated Placement Policy for jobs with a required start (Deadlines 2.2).

Its instants of tries are arithmetic (koala.core.timeline); here is what it does in one. A try is
all or nothing: the components are placed and claimed together, or none of them is. At the deadline
a job that may do so makes room among the local users' jobs (the paper's GP; `at_deadline = kill`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Where each component goes (an index of a site), and how many of each site's youngest local
    jobs must go for that.
    """

    sites: tuple[int, ...]
    victims: tuple[int, ...]


def make_room(
    parts: Sequence[tuple[int, Sequence[int]]],
    idle: Sequence[int],
    local: Sequence[Sequence[int]],
) -> Room | None:
    """Room for all parts, or None: then nobody is to be killed for any of them (Deadlines 2.2).

    A part is its processors and the sites that may take it, in order. Part by part: the site with
    most idle processors if it fits there, else, of the sites where idle ones and those of local
    jobs suffice, the one with most idle; ties: the first. `local` are the processors of each
    site's local jobs, the youngest first; they go in that order, and no more than needed.
    """
    free = list(idle)
    left = [sum(processors) for processors in local]
    victims = [0] * len(free)
    sites = []
    for processors, candidates in parts:
        fitting = [site for site in candidates if free[site] + left[site] >= processors]
        # Where the part fits on idle processors, the site with most of them is among these, too.
        site = max(fitting, key=free.__getitem__, default=None)
        if site is None:
            return None
        while free[site] < processors:
            victim = local[site][victims[site]]
            victims[site] += 1
            left[site] -= victim
            free[site] += victim
        free[site] -= processors
        sites.append(site)
    return Room(sites=tuple(sites), victims=tuple(victims))
