"""Pre-flight: no barrier is armed before the TCP paths that a job needs were tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.common.protocol.messages import (
    ClaimEnd,
    EndKind,
    PathTarget,
    PortAddress,
    PortPath,
    PortUse,
)
from koala.core.model.actions import ArmClaim, ClaimProcessors, StartTransfer, StopClaim, TryPaths
from koala.core.model.events import ClaimGone, ClaimGranted, PathsTried, PortsUsed
from koala.core.model.job_spec import JobSpec, JobType, Split
from koala.core.model.values import ClaimId, JobId, SiteName, TcpPath
from koala.daemon.clients.admission import warnings
from koala.views.explain import why
from koala.views.ports import port_ways
from koala_agent.claims.bundle import build_bundle
from tests.harness.builders import a_component, a_job, a_site
from tests.harness.script import Script

ALL = TcpPath(source="all", target="all", port=29500)
A, B, C = "j1/1/0/1", "j1/1/1/1", "j1/1/2/1"


def tried(claim: str, problem: str = "") -> PathsTried:
    return PathsTried(claim=ClaimId(claim), problem=problem)


def begun(script: Script, *paths: TcpPath, **more: object) -> Script:
    """j1 of three labelled components at a, b and c, all granted."""
    for site in ("a", "b", "c"):
        script.tell(a_site(site, 4, address=f"{site}.org"))
    parts = [a_component(4, site, label=f"{site}1") for site in ("a", "b", "c")]
    script.tell(a_job("j1", *parts, connect=paths, **more))
    return script.grant(*script.claimed("j1"))


@pytest.fixture
def trying(script: Script) -> Script:
    """Its three components try the paths among them all."""
    begun(script, ALL)
    assert [action.claim for action in script.take(TryPaths)] == [A, B, C]
    return script


def test_each_component_listens_and_reaches_all_others(script: Script) -> None:
    first, *_ = begun(script, ALL).take(TryPaths)
    assert (first.label, first.address, first.listens) == ("a1", "a.org", (29500,))
    assert first.targets == tuple(
        PathTarget(label=f"{s}1", address=f"{s}.org", port=29500, claim=ClaimId(claim))
        for s, claim in (("b", B), ("c", C))
    )
    assert first.limit_s == script.parameters.paths_limit_s


def test_a_component_is_where_its_starter_is_unless_its_site_says(
    script: Script,
) -> None:
    script.tell(a_site("a", 4, address="a.org"), a_site("b", 4, address=""))
    parts = [a_component(4, "a"), a_component(4, "b")]
    script.tell(a_job("j1", *parts, connect=(ALL,)))
    for claim in script.claimed("j1"):
        address = f"node-of-{claim[5]}"
        script.tell(ClaimGranted(claim=ClaimId(claim), nonce="n", address=address))
    first, second = script.take(TryPaths)
    assert [target.address for target in first.targets] == ["node-of-1"]
    assert (second.address, [target.address for target in second.targets]) == (
        "node-of-1",
        ["a.org"],
    )


def test_the_barrier_is_armed_when_all_paths_are_open(trying: Script) -> None:
    trying.tell(tried(A), tried(C)).expect_nothing()
    assert why(trying.scheduler, JobId("j1"), trying.now) == [
        "all components claimed; pre-flight: waits until b1 tried their TCP paths"
    ]
    trying.tell(tried(B))
    assert trying.phase("j1") == "Starting"
    trying.released("j1")
    trying.unchanged_by(tried(A, "too late"))


def test_a_closed_path_ends_the_attempt_with_its_words(trying: Script) -> None:
    trying.ignore(StopClaim).after(2).tell(tried(A, "a1 -> b1:29500 refused"))
    assert trying.phase("j1") == "Placing"
    assert "pre-flight: a1 -> b1:29500 refused" in trying.story("j1")
    assert [site.errors for site in trying.scheduler.sites.values()] == [0, 0, 0]
    lines = " ".join(why(trying.scheduler, JobId("j1"), trying.now))
    assert "a1 -> b1:29500 refused" in lines
    assert "not tried again for" in lines


def test_the_next_attempt_is_not_made_at_once(trying: Script) -> None:
    trying.ignore(StopClaim).tell(tried(A, "closed"))
    for claim in (A, B, C):
        trying.gone(claim)
    rest_s = trying.parameters.scan_interval_s
    trying.at(trying.now + rest_s - 0.1).expect_nothing()
    assert trying.after(0.2).claimed("j1") == ["j1/2/0/1", "j1/2/1/1", "j1/2/2/1"]


def test_the_next_attempt_has_another_port_and_is_made_at_once(script: Script) -> None:
    script.ignore(StopClaim).tell(a_site("a", 4), a_site("b", 4))
    parts = [a_component(4, site, job_type=JobType.MPI) for site in ("a", "b")]
    script.tell(a_job("j1", *parts)).grant(*script.claimed("j1"))
    (port,) = script.take(TryPaths)[0].listens
    taken = PortPath(claim=ClaimId(A), port=port, problem="is taken")
    script.tell(PathsTried(claim=ClaimId(A), problem="0: port is taken", ports=(taken,)))
    script.gone(A).gone(B)
    next_ones = script.after(script.parameters.claiming_step_min_s).claimed("j1")
    assert next_ones == ["j1/2/0/1", "j1/2/1/1"]
    assert script.grant(*next_ones).take(TryPaths)[0].listens != (port,)


def test_a_job_has_failed_after_so_many_attempts_with_a_closed_path(script: Script) -> None:
    script.ignore(StopClaim, TryPaths).change(blocked_max=2)
    begun(script, ALL).tell(tried(A, "closed"))
    for claim in (A, B, C):
        script.gone(claim)
    script.after(script.parameters.scan_interval_s)
    script.grant(*script.claimed("j1")).tell(tried("j1/2/1/1", "closed"))
    assert script.phase("j1") == "Failed"
    assert script.reason("j1") == "pre-flight: closed; 2 attempts ended so"


def test_a_component_that_says_nothing_ends_the_attempt_in_time(trying: Script) -> None:
    trying.ignore(StopClaim).tell(tried(A))
    limit_s = 2 * trying.parameters.paths_limit_s
    trying.after(limit_s - 0.1).expect_nothing()
    trying.after(0.2)
    assert "pre-flight: no answer from b1, c1" in trying.story("j1")


def test_paths_are_tried_while_files_travel(script: Script) -> None:
    script.replica("f", "z").tell(a_site("z", 1))
    for site in ("a", "b"):
        script.tell(a_site(site, 4))
    script.tell(a_job("j1", a_component(4, "a"), a_component(4, "b"), connect=(ALL,), file="f"))
    transfers = script.take(StartTransfer)
    assert transfers
    script.at(0.0001).grant(*script.claimed("j1"))
    assert len(script.take(TryPaths)) == 2
    script.tell(tried(A), tried(B)).expect_nothing()
    for transfer in transfers:
        script.fetched(transfer.transfer)
    assert len(script.take(ArmClaim)) == 2


def test_a_site_that_returns_is_asked_again_until_it_answered(trying: Script) -> None:
    trying.tell(tried(A)).disconnect("a").disconnect("b")
    assert trying.scheduler.wanted(SiteName("a")).paths == ()
    (again,) = trying.scheduler.wanted(SiteName("b")).paths
    assert (again.claim, again.listens, len(again.targets)) == (B, (29500,), 2)


# One MPI world over several components ------------------------------------------------------------


def world(script: Script, *types: JobType) -> list[TryPaths]:
    """A job of components of these types; what its members are told to try."""
    sites = ("a", "b", "c")[: len(types)]
    for site in sites:
        script.tell(a_site(site, 4, address=f"{site}.org"))
    parts = [
        a_component(4, site, label=f"{site}1", job_type=job_type)
        for site, job_type in zip(sites, types, strict=True)
    ]
    script.tell(a_job("j1", *parts))
    script.grant(*script.claimed("j1"))
    return script.take(TryPaths)


def test_components_of_an_mpi_world_try_to_reach_its_launcher(script: Script) -> None:
    """The first of them has it; who is no part of the world tries nothing."""
    lead, other = world(script, JobType.MULTIPLE, JobType.MPI, JobType.MPI)
    assert (lead.claim, lead.targets, other.claim, other.listens) == (B, (), C, ())
    (port,) = lead.listens
    (target,) = other.targets
    assert (target.label, target.address, target.port) == ("b1", "b.org", port)
    script.tell(tried(B), tried(C))
    assert len(script.take(ArmClaim)) == 3


def test_the_launchers_port_is_the_one_that_agents_tell_programs(script: Script) -> None:
    script.tell(
        a_site("a", 8), a_site("b", 8), a_job("j1", *[a_component(1, job_type=JobType.MPI)] * 2)
    )
    ports = {hold.port for hold in script.take(ClaimProcessors)}
    script.grant("j1/1/0/1", "j1/1/1/1")
    lead, *_ = script.take(TryPaths)
    script.tell(*[tried(ClaimId(f"j1/1/{number}/1")) for number in (0, 1)])
    masters = [build_bundle(arm.claim, arm.peers)["master"] for arm in script.take(ArmClaim)]
    (port,) = lead.listens
    assert ports == {port}
    assert masters == [{"address": "127.0.0.1", "port": port}] * 2


def test_jobs_of_two_grids_with_the_same_number_have_other_ports() -> None:
    """Agents of both may be on one machine, where the first job of each is j1."""

    def port(submitted_at: float) -> int:
        script = Script().at(submitted_at)
        (hold,) = script.tell(a_site("a", 8), a_job("j1", 1)).take(ClaimProcessors)
        return hold.port

    assert port(1_790_000_000.25) != port(1_790_000_000.5)
    assert port(7.0) == port(7.0)


# Ports that may be reached another way


def serving(script: Script, *, forwards: tuple[str, ...] = ("a", "b", "c")) -> Script:
    """j1 of three components at a, b and c, all granted; the one at a listens at DB."""
    for site in ("a", "b", "c"):
        script.tell(a_site(site, 4, address=f"{site}.org", forwards=site in forwards))
    parts = [a_component(4, site, label=f"{site}1") for site in ("a", "b", "c")]
    parts[0] = replace(parts[0], ports=(("DB", 5432),))
    script.tell(a_job("j1", *parts))
    return script.grant(*script.claimed("j1"))


def path(problem: str = "", rtt_s: float = 0.0) -> PortPath:
    return PortPath(claim=ClaimId(A), port=5432, problem=problem, rtt_s=rtt_s)


def test_the_port_of_a_component_is_tried_from_each_other_one(script: Script) -> None:
    first, second, third = serving(script).take(TryPaths)
    assert (first.listens, first.targets) == ((5432,), ())
    assert (second.listens, second.targets) == ((), third.targets)
    assert second.targets == (
        PathTarget(label="a1", address="a.org", port=5432, claim=ClaimId(A), may_fail=True),
    )


def test_who_does_not_reach_a_port_goes_through_the_grid(script: Script) -> None:
    serving(script).take(TryPaths)
    script.tell(tried(A), PathsTried(claim=ClaimId(B), ports=(path(rtt_s=0.01),)))
    script.tell(PathsTried(claim=ClaimId(C), ports=(path("refused"),)))
    arms = {arm.claim: arm.ports for arm in script.take(ArmClaim)}
    direct = PortAddress(name="DB", claim=ClaimId(A), address="a.org", port=5432)
    forwarded = replace(direct, is_forwarded=True)
    assert arms == {A: (forwarded,), B: (direct,), C: (forwarded,)}


def test_nobody_is_forwarded_when_all_reach_the_port(script: Script) -> None:
    serving(script).take(TryPaths)
    script.tell(tried(A), *[PathsTried(claim=ClaimId(c), ports=(path(),)) for c in (B, C)])
    assert not any(port.is_forwarded for arm in script.take(ArmClaim) for port in arm.ports)


@pytest.mark.parametrize("mute", ["a", "c"])
def test_a_site_that_carries_no_connections_needs_the_path(script: Script, mute: str) -> None:
    serving(script, forwards=tuple({"a", "b", "c"} - {mute})).take(TryPaths)
    script.ignore(StopClaim).tell(PathsTried(claim=ClaimId(C), ports=(path("refused"),)))
    reason = f"pre-flight: DB: c1 -> a1:5432 refused, and {mute} carries no connections"
    assert reason in script.story("j1")
    owner = replace(a_component(1, "a"), ports=(("DB", 5432),))
    again = JobSpec(components=(owner, a_component(1, "c")))
    (warned,) = warnings(again, script.scheduler, {})
    assert f"nodes of c did not reach those of a when a job tried last, and {mute}" in warned
    assert warnings(replace(again, components=(owner,)), script.scheduler, {}) == ()


def test_what_went_through_the_grid_is_charged(script: Script) -> None:
    serving(script).take(TryPaths)
    reports = [PathsTried(claim=ClaimId(c), ports=(path("refused"),)) for c in (B, C)]
    script.tell(tried(A), *reports).released("j1")
    use = PortUse(
        name="DB",
        claim=ClaimId(A),
        connections=2,
        size_bytes=900,
        busy_s=3.0,
        rtt_s=0.02,
        refused=1,
        refusal="nothing listens",
    )
    script.tell(PortsUsed(claim=ClaimId(B), ports=(use,)))
    attempt = script.scheduler.jobs[JobId("j1")].attempt
    assert attempt is not None
    assert attempt.members[1].used == (use,)
    (way,) = port_ways(script.scheduler.jobs[JobId("j1")], attempt)[:1]
    assert "in 2 connections" in way.words
    assert "1 connection refused, the last: nothing listens" in way.words
    end = ClaimEnd(kind=EndKind.EXITED, statuses=(0,), forwarded_bytes=1000)
    script.tell(ClaimGone(claim=ClaimId(B), end=end))
    (charge,) = script.scheduler.jobs[JobId("j1")].charges
    assert charge.forwarded_bytes == 1000


def test_routes_that_were_missed_are_known_until_they_are_there(script: Script) -> None:
    serving(script).take(TryPaths)
    script.tell(PathsTried(claim=ClaimId(C), ports=(path("refused"),)))
    script.tell(PathsTried(claim=ClaimId(B), ports=(path(),), reached=((ClaimId(A), 0.1),)))
    assert needed(script, "a", "b", "c").endswith(
        ": closed between a and c; never tried between b and c; open between a and b"
    )
    assert needed(script, "a", "b") == needed(script, "a") == ""
    parts = [a_component(4, site) for site in ("a", "c")]
    script.tell(a_job("j2", *parts, connect=(ALL,)))
    assert why(script.scheduler, JobId("j2"), script.now)[-1] == needed(script, "a", "c") != ""
    script.tell(PathsTried(claim=ClaimId(C), reached=((ClaimId(A), 0.1),)))
    assert needed(script, "a", "c") == ""
    assert needed(script, None, None).endswith(
        "never tried between b and c; open between a and b, a and c"
    )
    total = Split(total=8, least=8, part_max=8, parts_max=2)
    part = replace(a_component(8), job_type=JobType.MPI, sites=(SiteName("b"), SiteName("c")))
    (told,) = warnings(JobSpec(components=(part,), split=total), script.scheduler, {})
    assert told.endswith("never tried between b and c")


def needed(script: Script, *sites: str | None) -> str:
    """Return the warning of a job that needs routes between components at these sites; there is
    none of a job that needs no route."""
    parts = tuple(a_component(1, site) for site in sites)
    assert warnings(JobSpec(components=parts), script.scheduler, {}) == ()
    spec = JobSpec(components=parts, connect=(ALL,))
    return "".join(warnings(spec, script.scheduler, {}))
