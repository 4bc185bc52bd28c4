"""The simulations of the papers as commands: `koala simulate deadlines`, `hints`, `koala`, ...

One module a paper, with its name; `synchronous` is `koala simulate sq`.
"""
