"""Batch scripts as components: directives of batch systems become attributes.

reading      from scripts to a job: chooses the directives that count, and lets each have its effect
options      a table of options, what becomes of each, and the splitting of words
draft        a component while its directives are read, and readers that several systems share
variables    variables of batch systems that a script reads
steps        what each part of a heterogeneous job runs

Each other module has the options of one batch system; an entry point names it.
"""
