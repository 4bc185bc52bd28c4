"""Compare placement policies on the same random workload, in simulated time.

Three sites, 500 jobs of one to three components. Each policy, one of our own among them, places the
same jobs; the scheduler is the one that `koala daemon` runs.

    python compare.py [JOBS]
"""

import random
import statistics
import sys
from dataclasses import replace

from koala.core.model.grid import SiteFacts
from koala.core.model.parameters import Parameters
from koala.core.model.values import JobId, SiteName
from koala.job_descriptions import read_job
from koala.lab.sim.experiment.setting import SiteSetting, Submission
from koala.lab.sim.experiment.world import World
from koala.policies import chosen

SITES = {"delft": 64, "leiden": 64, "vu": 144}
JOBS = int(sys.argv[1]) if len(sys.argv) > 1 else 500


def workload(seed):
    """Draw jobs: Poisson arrivals, one to three components of 4 to 32 processors, about an hour."""
    draw = random.Random(seed)
    at = 0.0
    for number in range(JOBS):
        at += draw.expovariate(1 / 900)
        components = [draw.choice((4, 8, 16, 32)) for _ in range(draw.randint(1, 3))]
        text = "+" + "".join(f"(&(executable=sim)(count={count}))" for count in components)
        run_s = draw.expovariate(1 / 3600)
        yield Submission(
            job=JobId(f"j{number}"),
            at=at,
            spec=read_job(text).spec,
            run_s=(run_s,) * len(components),
        )


def first_fit(request, view):
    """Place each component, the largest first, on the first site with room: a policy of our own."""
    from koala.core.model.grid import Assignment, Placement, Unplaceable

    idle = view.idle(request.user)
    found = []
    for part in sorted(request.parts, key=lambda part: -part.processors):
        site = next((name for name, free in idle.items() if free >= part.processors), None)
        if site is None:
            return Unplaceable(component=part.component, reason="no site has room")
        idle[site] -= part.processors
        found.append(Assignment(component=part.component, site=site))
    return Placement(assignments=tuple(sorted(found, key=lambda one: one.component)))


def simulate(policies, seed):
    """Run one workload; return the waiting times of its jobs, in seconds."""
    sites = [
        SiteSetting(name=SiteName(name), facts=SiteFacts(processors=processors))
        for name, processors in SITES.items()
    ]
    world = World(
        sites=sites, submissions=workload(seed), parameters=Parameters(), policies=policies
    )
    return [record.waiting_s for record in world.run().jobs if record.waiting_s is not None]


if __name__ == "__main__":
    compared = {
        "WF": chosen(placement="WF"),
        "CF": chosen(placement="CF"),
        "WF-distinct": chosen(placement="WF-distinct"),
        "first-fit": replace(chosen(), place=first_fit),
    }
    print("policy        mean wait (s)  90 % wait less than (s)")
    for name, policies in compared.items():
        waits = sorted(wait for seed in (1, 2, 3) for wait in simulate(policies, seed))
        print(f"{name:12}  {statistics.mean(waits):13.0f}  {waits[int(0.9 * len(waits))]:23.0f}")
