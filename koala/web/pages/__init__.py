"""Handlers of the pages: each reads the model or asks the daemon, and renders a template.

sign_in        sign in and out
grid           the grid, and one site
timeline       the claims of all jobs over the sites
jobs, job      the list of jobs; one job
queues         the placement queues
submit         a form for a job
report         costs of jobs
replay         a past run, and a what-if beside it
results        figures and claims of simulations
events         streams of changes for open pages
viewer         the user of a page, rendering, errors as pages
"""
