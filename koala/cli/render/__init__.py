"""Documents as text for people: pure functions from plain data to text.

documents         the daemon's documents
access            those of access control: sites, users, audit log
job_list          `koala list`
queues            the placement queues
gantt, timeline   the course of a job
table             aligned columns, which all of them use
"""
