"""`python -m tests.lab.papers.maxima`: find the table in koala.lab.papers.multiqueue.maxima again.

The maximal utilisation of a policy in a case is the largest multiple of 0.005 at which two runs of
100,000 jobs are not saturated, found by bisection. It takes about an hour of one core.
"""

from __future__ import annotations

from collections.abc import Sequence

from koala.core.model.values import FOREVER
from koala.lab.papers.multiqueue.charts import CASES, EQ, LP, LS
from koala.lab.papers.multiqueue.maxima import POLICIES
from koala.lab.papers.multiqueue.points import Case
from koala.lab.papers.multiqueue.simulation.runs import run
from koala.lab.papers.multiqueue.simulation.setting import Setting
from koala.lab.sim.replication import replicate
from koala.lab.sim.saturation import is_saturated

STEPS = 200
"""A utilisation is a multiple of 1/200."""
JOBS, WARMUP, SEEDS = 100_000, 30_000, (1, 2)


def policies(case: Case) -> tuple[str, ...]:
    """Those that differ: without single- or without multi-component jobs most are the same."""
    if case.mix[0] == 100:
        return ("GS", "LS-DO")
    if case.mix[0] == 0:
        return ("GS", *LS)
    return ("GS", *LS, "GP", *LP, *EQ, "LQ")


def keeps_up(policy: str, case: Case, utilization: float) -> bool:
    """True when it is not saturated."""
    setting = Setting(
        policy=policy,
        mix=case.mix,
        split=case.split,
        utilization=utilization,
        jobs=JOBS,
        warmup=WARMUP,
        ageing=FOREVER,
    )
    return not is_saturated([run(setting, seed).trend for seed in SEEDS])


def maximum(item: tuple[str, Case]) -> float:
    """By bisection between 0.5 and 0.96."""
    policy, case = item
    low, high = 100, 192
    while high - low > 1:
        middle = (low + high) // 2
        if keeps_up(policy, case, middle / STEPS):
            low = middle
        else:
            high = middle
    return low / STEPS


def main(cases: Sequence[Case] = CASES) -> None:
    """Print the table."""
    for case in cases:
        items = [(policy, case) for policy in policies(case)]
        found = {policy: value for (policy, _), value in replicate(maximum, items).finished}
        row = [round(1000 * found[one]) if one in found else None for one in POLICIES]
        print(f"    ({case.mix}, {case.is_balanced}): {tuple(row)},")


if __name__ == "__main__":
    main()
