"""Descriptions of jobs that the tests of verbs submit."""

HELLO = """+(&(executable=/bin/echo)(arguments=out $(WORD "one"))(count=1)(label=first))
 (&(executable=/bin/sh)(arguments=-c "echo err >&2")(count=1)(label=second))"""

SLEEP = "&(executable=/bin/sleep)(arguments=600)(count=1)"
