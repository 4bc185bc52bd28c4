"""Views of the scheduler's state for people: documents, explanations and accounts.

Pure functions of the core's state; the core does not depend on them.

documents    JSON documents of jobs, sites and files: `koala show`, `list` and `sites`
queues       that of the placement queues
explain      the sentences of `koala why`
accounting   the figures of `koala report`
gantt        the course of a job as bars; `gantt_svg` draws it, with elements of `svg`
spans        the course of a job that is over as spans, for traces
units        amounts as text
cells, barrier, usage
             documents as the pages and `koala top` show them
"""
