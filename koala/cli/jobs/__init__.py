"""Commands about jobs.

submit           submit a description; `run`: one command on several sites
status           list, show, why, timeline, cancel
follow           wait and watch; `interrupt`: Ctrl-C meanwhile
logs, outputs    output of programs, and output files
rsl, convert     a description as its tree, or in another form
"""
