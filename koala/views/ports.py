"""Ways to the ports of a job's components, and routes between its sites, as they were tried and
used."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from msgspec.structs import replace

from koala.core.model.job import Attempt, Job, Member
from koala.core.model.job_spec import JobSpec, JobType
from koala.core.model.tcp_paths import is_one_world
from koala.core.model.values import SiteName, claim_numbers
from koala.core.state import State
from koala.views.records import jobs
from koala.views.units import counted, size

ROUTES_SHOWN, SITES_MAX = 3, 50
"""The rest of a large grid is not told."""


def describe_routes(spec: JobSpec, state: State, placed: Sequence[SiteName] = ()) -> str:
    """Say what is known of the routes between the sites of a job that needs them, where it was
    placed or may be; empty if all are open."""
    may_be_split = spec.split is not None and spec.split.parts_max > 1
    is_split_mpi = may_be_split and spec.components[0].job_type is JobType.MPI
    if not (spec.connect or is_split_mpi or is_one_world(spec)):
        return ""
    named: Collection[SiteName | None] = placed or [
        name for part in spec.components for name in part.sites or (part.site,)
    ]
    anywhere = [name for name, site in state.sites.items() if site.facts.admits(spec.owner)]
    sites = [name for name in sorted(anywhere) if None in named or name in named]
    routes: dict[str, list[str]] = {"closed": [], "never tried": [], "open": []}
    for pair in combinations(sites[:SITES_MAX], 2):
        one_way = [end in state.sites[start].unreached for start, end in (pair, pair[::-1])]
        untried = "open" if pair in state.files.round_trips else "never tried"
        routes["closed" if any(one_way) else untried].append(" and ".join(pair))
    if not routes["closed"] and not routes["never tried"]:
        return ""
    for pairs in routes.values():
        if len(pairs) > ROUTES_SHOWN:
            pairs[ROUTES_SHOWN:] = [f"{len(pairs) - ROUTES_SHOWN} more"]
    known = [f"{what} between {', '.join(pairs)}" for what, pairs in routes.items() if pairs]
    return (
        "needs a route between the nodes of its sites (MPI and connect do not go through the"
        f" grid): {'; '.join(known)}"
    )


def port_ways(job: Job, attempt: Attempt | None) -> tuple[jobs.PortWay, ...]:
    """Describe how each member of an attempt reaches the ports of the others."""
    if attempt is None:
        return ()
    return tuple(way for member in attempt.present for way in _ways(job, member))


def _ways(job: Job, member: Member) -> Iterator[jobs.PortWay]:
    used = {(use.claim, use.name): use for use in member.used}
    for path in member.paths:
        _attempt, owner, _number = claim_numbers(path.claim)
        for name, port in job.spec.components[owner].ports:
            if port != path.port:
                continue
            use = used.get((path.claim, name))
            rtt_s = path.rtt_s if not path.problem else (use.rtt_s if use is not None else 0.0)
            rate_bps = use.size_bytes / use.busy_s if use is not None and use.busy_s else None
            way = jobs.PortWay(
                name=name,
                owner=job.spec.label(owner),
                component=job.spec.label(member.component),
                is_forwarded=bool(path.problem),
                problem=path.problem,
                rtt_s=rtt_s or None,
                connections=0 if use is None else use.connections,
                moved_bytes=0 if use is None else use.size_bytes,
                rate_bps=rate_bps,
                refused=0 if use is None else use.refused,
                refusal="" if use is None else use.refusal,
            )
            yield _worded(way)


def _worded(way: jobs.PortWay) -> jobs.PortWay:
    ends = f"{way.name} of component {way.owner} from component {way.component}"
    words = ["through the grid" if way.is_forwarded else "directly"]
    if way.rtt_s is not None:
        words.append(f"round trip {1000 * way.rtt_s:.1f} ms")
    if way.connections:
        words.append(f"{size(way.moved_bytes)} in {counted(way.connections, 'connection')}")
    elif way.is_forwarded and not way.refused:
        words.append("no connection was told yet")
    if way.rate_bps is not None:
        words.append(f"{size(way.rate_bps)}/s while it moved")
    if way.refused:
        words.append(f"{counted(way.refused, 'connection')} refused, the last: {way.refusal}")
    why = f" (the path: {way.problem})" if way.is_forwarded else ""
    return replace(way, words=f"{ends}: {', '.join(words)}{why}")
