"""Views of the scheduler's state for people: documents, explanations and accounts.

Pure functions of the core's state; nothing in the core depends on them. `documents` makes the plain
data behind `koala show`, `list` and `sites`, `explain` the sentences of `koala why`, `accounting`
the figures of `koala report`.
"""
