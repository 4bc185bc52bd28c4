"""The contract of batch systems, tried in front of real ones.

checks         what a batch system and its dialect must do, one check for each point
trial_system   a batch system on trial: managers in front of it, jobs for it, and a look past them
witness        what a local manager reports
finding_texts  what was seen, and commands that failed, in words
kit            `koala-agent conformance`: all checks in front of the site of a configuration

The tests of Koala's own batch systems make the same checks.
"""
