"""The multiple-queues paper: ten job streams under thirteen disciplines (Multiple queues 3).

- `charts`: the policies that are compared in each case, and the utilisations.
- `maxima`: the maximal utilisations of the policies.
- `simulation`: the model; `options`, `command`: `koala simulate`.
- `points`: runs a point.
- `experiment`: the paper as a whole.
- Claims: `claims_general` (1, 2.5, 3), `claims_local` (3.1.1), `claims_global_first` (3.1.2,
  3.1.3), `claims_policies` (3.2), `claims_queues` (3.3, 4); `untestable` sentences.
- `figures`: the figures; `reasons`: why claims fail.
"""

from koala.lab.papers.multiqueue.experiment import PAPER

__all__ = ["PAPER"]
