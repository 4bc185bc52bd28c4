"""Documents that daemon, client, command line and pages exchange, each field declared once.

What a field means and its unit are in the text below it. `python -m tests.client.reference` makes
the tables of docs/api.md of these texts.

base         `Record`; `Moment`, an instant; how records become JSON, and are read from it
phases       the phases of a job
accounts     the cost of claims, and reports
jobs         jobs: in a list, in whole, as a timeline; explanations and notices
grid         sites, queues, files, metrics
chart        the timeline of the grid: claims over sites
access       enrolments of sites, users, the audit log
"""
