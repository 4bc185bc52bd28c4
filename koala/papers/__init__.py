"""The papers' experiments: their figures drawn again, and a verdict for each of their claims.

`paper` says what a paper is: settings, figures and claims, all of them data. `sweep` collects the
runs that figures and claims need and makes each once; `results` holds what came out. `claims` tests
what the text says by paired differences; `figures` draws; `report` writes. One module a paper
(`multiqueue`, `deadlines`, `koala`) and one beside it for its claims.

Nothing here is tuned: a claim that fails is reported as failing.
"""
