"""Reproduction of the papers' experiments: figures, and a verdict for each claim.

- `paper`: data types of a paper (settings, figures, claims).
- `sweep`: collects the runs that figures and claims need and makes each once.
- `results`: holds what the runs measured.
- `claims`: tests the claims by paired differences.
- `figures`: draws.
- `report`: writes the report.
- One package per paper (`multiqueue`, `deadlines`, `koala`, `hints`, `synchronous`) with its
  claims.

Nothing here is tuned: a claim that fails is reported as failing.
"""
