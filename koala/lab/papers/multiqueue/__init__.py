"""The multiple-queues paper: ten job streams under thirteen disciplines (Multiple queues 3).

- `charts`: the policies that are compared in each case, and the utilisations.
- `maxima`: the maximal utilisations of the policies.
- `simulation`: the model; `options` of its command.
- `points`: runs a point.
- `experiment`: the paper as a whole.
- `sentences.toml`: the claims of the text, with their tests; `claims` reads them.
- `figures`: the figures.
"""

from koala.lab.papers.multiqueue.experiment import PAPER

__all__ = ["PAPER"]
