"""The multiple-queues paper: ten job streams under thirteen disciplines (Multiple queues 3).

- `charts`: the policies that are compared in each case, and the utilisations.
- `maxima`: the maximal utilisations of the policies.
- `experiment`: runs a point.
- Claims: `claims_extremes` (2.5), `claims_local_schedulers` (3.1.1), `claims_global_first` (3.1.2,
  3.1.3), `claims_policies` and `claims_mixes` (3.2), `claims_queues` (3.3), `claims_conclusions`
  (4).
"""

from koala.papers.multiqueue.experiment import PAPER

__all__ = ["PAPER"]
