"""The simulation of the hints paper against a second implementation, job by job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.lab.papers.hints.simulation.jobs import arrivals
from koala.lab.papers.hints.simulation.run import simulate_jobs
from koala.lab.papers.hints.simulation.setting import JobClass, Setting, SiteSetting
from tests.lab.papers.simulations.hints import naive

POLICIES = ("NoNetwork", "PreferLocal", "Service")
SMALL = Setting(jobs=80)
SITES = (
    SiteSetting(name="a", mips=2500, slice_mips=2500, slots=2, link_mbps=5),
    SiteSetting(name="b", mips=2500, slice_mips=900, slots=3, link_mbps=9),
    SiteSetting(name="c", mips=1000, slice_mips=1000, slots=1, link_mbps=3),
    SiteSetting(name="d", mips=8000, slice_mips=1300, slots=9, link_mbps=11),
)
VARIANTS = {
    "the paper's": SMALL,
    "half of the jobs read": replace(SMALL, io_fraction=0.5),
    "all jobs read": replace(SMALL, io_fraction=1.0, rate=0.0012),
    "few at a time": replace(SMALL, rate=0.0001, io_fraction=0.4),
    "wide links": replace(SMALL, vpn_mbps=30.0, io_fraction=0.6),
    "narrow links": replace(SMALL, vpn_mbps=1.0, io_fraction=0.6),
    "little is accepted": replace(SMALL, accept=0.9),
    "anything is accepted": replace(SMALL, accept=0.0, io_fraction=0.7),
    "no rate is preferred": replace(SMALL, preferred_mips=0.0, io_fraction=0.5),
    "another grid": replace(
        SMALL, sites=SITES, vpns=(("d", "a", 2.0),), preferred_mips=700.0, io_fraction=0.5
    ),
    "jobs without data": replace(SMALL, cpu=JobClass(data_mb=0.0, length_mi=9e6), io_fraction=0.3),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_every_job_is_where_and_when_the_plain_model_has_it(
    variant: str, policy: str, seed: int
) -> None:
    setting = replace(VARIANTS[variant], policy=policy)
    drawn = list(arrivals(setting, seed))
    ours = simulate_jobs(setting, drawn).jobs
    theirs = naive.run(setting, drawn)
    for job, other in zip(ours, theirs, strict=True):
        story = f"{variant}, {policy}, seed {seed}: {job} {other}"
        assert (job.site if job.site is not None else -1) == other.site, story
        if job.site is not None:
            assert job.placed_at == pytest.approx(other.start, abs=0.01), story
            assert job.ended_at == pytest.approx(other.end, abs=0.01), story
            assert job.mips == pytest.approx(other.mips, rel=1e-6), story
            assert job.booked_mbps == pytest.approx(other.bandwidth, rel=1e-6), story


def test_the_variants_differ_in_what_they_try() -> None:
    """The comparison would be empty if no job ever waited, starved, or ran below the preferred
    rate."""
    found = {"waited": 0, "starved": 0, "slow": 0, "remote": 0}
    for variant in VARIANTS.values():
        for policy in POLICIES:
            setting = replace(variant, policy=policy)
            for job in simulate_jobs(setting, list(arrivals(setting, 1))).jobs:
                if job.site is None:
                    continue
                kind = setting.kind(is_io=job.is_io)
                run_s = job.ended_at - job.placed_at
                found["waited"] += job.placed_at > job.submitted_at
                found["starved"] += run_s > 1.01 * kind.length_mi / job.mips
                found["slow"] += job.mips < 0.99 * setting.preferred_mips
                found["remote"] += job.site != job.home
    assert all(count > 50 for count in found.values()), found
