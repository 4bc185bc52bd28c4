"""Maximal utilisations of the policies, by case and by balance of the local queues.

Found by bisection with `python -m tests.lab.papers.maxima`, they are accurate to about 0.01,
because a system just below its maximum fills for a long time. Only the places of the charts depend
on them, no verdict. Policies that equal another one in a case are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from koala.lab.papers.multiqueue.points import Case
from koala.lab.rows import markdown

POLICIES = (
    *("GS", "LS-OR", "LS-RD", "LS-RO", "LS-DO", "GP"),
    *("LP-LF", "LP-GF", "LP-RD", "EQ-LF", "EQ-GF", "EQ-RD", "LQ"),
)
_TABLE = {  # in thousandths, in the order of the policies
    ((25, 25, 25, 25), True): (905, 920, 925, 925, 935, 905, 900, 905, 905, 900, 905, 905, 905),
    ((100, 0, 0, 0), True): (940, None, None, None, 920),
    ((50, 0, 0, 50), True): (900, 890, 905, 910, 915, 900, 885, 900, 890, 885, 900, 890, 900),
    ((0, 0, 0, 100), True): (895, 910, 920, 920, 925),
    ((50, 25, 25, 0), True): (920, 920, 930, 930, 935, 920, 920, 925, 920, 915, 930, 920, 920),
    ((0, 50, 50, 0), True): (915, 930, 935, 935, 945),
    ((50, 50, 0, 0), True): (930, 930, 940, 940, 945, 935, 930, 940, 935, 930, 940, 935, 930),
    ((80, 0, 0, 20), True): (905, 860, 875, 880, 900, 905, 865, 900, 885, 870, 905, 885, 900),
    ((90, 0, 0, 10), True): (910, 850, 855, 855, 885, 910, 870, 900, 885, 865, 910, 890, 910),
    ((80, 0, 0, 20), False): (905, 830, 800, 800, 805, 790, 850, 830, 845, 850, 825, 845, 805),
}
MAXIMA = {
    case: {
        policy: value / 1000
        for policy, value in zip(POLICIES, row, strict=False)
        if value is not None
    }
    for case, row in _TABLE.items()
}


def table_1(cases: Sequence[Case]) -> str:
    """Format these cases with the maximal utilisations of the policies, as Markdown."""
    columns = tuple(MAXIMA[cases[0].mix, True])
    rows = []
    for case in cases:
        found = MAXIMA[case.mix, case.is_balanced]
        cells = [f"{found[policy]:.3f}" if policy in found else "" for policy in columns]
        balanced = "yes" if case.is_balanced else "no"
        rows.append([",".join(map(str, case.mix)), balanced, *cells])
    return markdown(("case", "balanced", *columns), rows, are_numbers=True)
