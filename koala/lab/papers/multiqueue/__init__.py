"""The multiple-queues paper: ten job streams under thirteen disciplines (Multiple queues 3).

- `charts`: the policies that are compared in each case, and the utilisations.
- `maxima`: the maximal utilisations of the policies.
- `simulation`: the model; `options`, `command`: `koala simulate`.
- `points`: runs a point.
- `experiment`: the paper as a whole.
- `claims`: the sentences of `sentences.toml` and their tests, of which `written_tests` reads those
  that stand there.
- `figures`: the figures.
"""

from koala.lab.papers.multiqueue.experiment import PAPER

__all__ = ["PAPER"]
