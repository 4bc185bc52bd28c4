"""Documents as text for people: pure functions from plain data to text.

documents         the daemon's documents
job_list          `koala list`
gantt, timeline   the course of a job
table             aligned columns, which all of them use
"""
