"""Reproduction of the papers' experiments: figures, and a verdict for each claim.

- `paper`: data types of a paper (figures, claims).
- `sweep`: lists the runs that figures and claims need, each once.
- `results`: holds what the runs measured.
- `sentences`: reads the sentences of a paper, of which most are claims, and `written_tests` the
  tests beside them.
- `comparisons`, `verdicts`: what claims consist of, and the test of them by paired differences.
- `figures`: draws.
- `judgement`: judges the claims; `report` writes that: `claim_table`, `markdown` for people,
  `tables` for programs.
- One package per paper (`multiqueue`, `deadlines`, `koala`, `hints`, `synchronous`, `malleable`),
  all alike: `points` has the runs that figures and claims need, `figures` the panels of each
  figure, `sentences.toml` the claims, which `claims` reads, and `simulation` the model: `setting`
  (the parameters, which are options of its command), `arrivals` (the jobs of a seed), `run`, and
  where it is long `counting` (its quantities, and means over replications).

Nothing here is tuned: a claim that fails is reported as failing.
"""
