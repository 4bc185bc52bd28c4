"""The multiple-queues paper: ten job streams under thirteen disciplines (Multiple queues 3).

`charts` says which policies are compared in which case and at which utilisation, `maxima` holds the
utilisations that they can bear. The claims stand in `extremes` (2.5), `local_schedulers` (3.1.1),
`global_first` (3.1.2, 3.1.3), `policies` and `mixes` (3.2), `queues` (3.3) and `conclusions` (4);
`experiment` runs a point.
"""

from koala.papers.multiqueue.experiment import PAPER

__all__ = ["PAPER"]
