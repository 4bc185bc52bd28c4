"""Views of the scheduler's state for people: documents, explanations and accounts.

Pure functions of the core's state; the core does not depend on them. `documents` makes the plain
data of `koala show`, `list` and `sites`; `explain` the sentences of `koala why`; `accounting` the
figures of `koala report`; `digest` the checksum that a replay must give again.
"""
