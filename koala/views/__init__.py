"""Views of the scheduler's state for people: records, explanations and accounts.

Pure functions of the core's state; the core does not depend on them.

records      types of all that is shown; they know nothing of the core, and clients use them too
documents    builders of the records of jobs, sites and files: `koala show`, `list` and `sites`
queues       that of the placement queues
explain      the sentences of `koala why`; `waiting` words those about claims in local queues, and
             `expected` those about the start of a job
resizes      the size of malleable jobs, and the components that come and go
accounting   the figures of `koala report`
gantt        the course of a job as bars; `gantt_svg` draws it
grid_timeline
             the claims of all jobs over the sites; `grid_chart` draws them
spans        the course of a job that is over as spans, for traces
ports        the ways to ports of components
units        amounts as text
cells, barrier, usage
             records as the pages and `koala top` show them
"""
