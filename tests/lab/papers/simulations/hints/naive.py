"""The hints paper's model a second time, as plainly as it can be said, to be compared job by job.

It shares nothing with papers.hints.simulation but the drawn jobs: the policies are written
again from the paper in Mb/s and MB, every instant is found by looking at everything, and bandwidth
is shared by raising all shares together until nobody can have more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from koala.lab.papers.hints.simulation.jobs import Arrival
from koala.lab.papers.hints.simulation.setting import Setting

EPS = 1e-9


@dataclass
class Job:
    """All that a job has, in the units of the paper."""

    submitted: float
    home: int
    is_io: bool
    mb: float
    left: float  # million instructions
    length: float
    site: int = -1
    start: float = -1.0
    end: float = -1.0
    mips: float = 0.0
    bandwidth: float = 0.0  # booked

    @property
    def runs(self) -> bool:
        return self.site >= 0 and self.end < 0


def run(setting: Setting, arrivals: list[Arrival]) -> list[Job]:
    """Every job, in order of arrival."""
    jobs = []
    for arrival in arrivals:
        kind = setting.io if arrival.is_io else setting.cpu
        jobs.append(
            Job(
                arrival.at,
                arrival.home,
                arrival.is_io,
                kind.data_mb,
                kind.length_mi,
                kind.length_mi,
            )
        )
    now = 0.0
    while True:
        rates = {id(job): rate(setting, job, jobs) for job in jobs if job.runs}
        ends = [now + job.left / rates[id(job)] for job in jobs if job.runs]
        comes = [job.submitted for job in jobs if job.submitted > now]
        at = min([*ends, *comes], default=inf)
        if at == inf:
            return jobs
        for job in jobs:
            if job.runs:
                job.left -= rates[id(job)] * (at - now)
                if job.left <= 1e-6:
                    job.end = at
        now = at
        for job in jobs:
            if job.submitted <= now and job.site < 0:
                place(setting, job, jobs, now)


def capacity(setting: Setting, one: int, other: int) -> float:
    """Mb/s between two sites, or within one."""
    if one == other:
        return setting.sites[one].link_mbps
    for a, b, mbps in setting.vpns:
        if {a, b} == {setting.sites[one].name, setting.sites[other].name}:
            return mbps
    return setting.vpn_mbps


def rate(setting: Setting, job: Job, jobs: list[Job]) -> float:
    """MIPS at which a job proceeds now."""
    if job.bandwidth or not job.mb:
        return job.mips
    mates = [o for o in jobs if o.runs and {o.home, o.site} == {job.home, job.site}]
    left = capacity(setting, job.home, job.site) - sum(o.bandwidth for o in mates)
    mates = [o for o in mates if not o.bandwidth]
    wants = [8 * o.mb * o.mips / o.length for o in mates]
    # Water rises by the same in all vessels until it is used up.
    got = [0.0] * len(mates)
    while left > EPS and any(g < w - EPS for g, w in zip(got, wants, strict=True)):
        open_ = [i for i in range(len(mates)) if got[i] < wants[i] - EPS]
        rise = min(left / len(open_), *(wants[i] - got[i] for i in open_))
        for i in open_:
            got[i] += rise
        left -= rise * len(open_)
    share = got[[o is job for o in mates].index(True)]
    return min(job.mips, job.length * share / (8 * job.mb))


def place(setting: Setting, job: Job, jobs: list[Job], now: float) -> None:
    """Try to place a job, by the words of sections 4.1 to 4.3."""
    power: dict[int, float] = {}
    width: dict[int, float] = {}
    for index, site in enumerate(setting.sites):
        here = [o for o in jobs if o.runs and o.site == index]
        if len(here) < site.slots:
            power[index] = min(site.slice_mips, site.mips - sum(o.mips for o in here))
        mates = [o for o in jobs if o.runs and {o.home, o.site} == {job.home, index}]
        width[index] = capacity(setting, job.home, index) - sum(o.bandwidth for o in mates)
    effective = {
        index: min(mips, job.length * max(0.0, width[index]) / (8 * job.mb)) if job.mb else mips
        for index, mips in power.items()
    }
    least = setting.preferred_mips
    accepted = setting.accept * least
    local = [job.home]
    remote = [index for index in range(len(setting.sites)) if index != job.home]
    by_power = setting.policy == "NoNetwork"
    table = power if by_power else effective
    if setting.policy != "Service":
        ways = [(local, least), (remote, least)]
    elif job.is_io:
        ways = [(local, accepted), (remote, least)]
    else:
        ways = [(local + remote, accepted)]
    for candidates, minimum in ways:
        good = [i for i in candidates if table.get(i, -1.0) >= max(1e-3, minimum - 1e-6)]
        if good:
            top = max(table[i] for i in good)
            job.site = next(i for i in good if table[i] >= top - 1e-6)
            job.start, job.mips = now, table[job.site]
            job.bandwidth = 0.0 if by_power else 8 * job.mb * job.mips / job.length
            return
