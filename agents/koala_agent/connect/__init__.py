"""`koala site connect`: bring a host into the grid over ssh. `koala init` asks in the same way.

survey       what a host has: batch system, interpreters, variables, asked by one script
plan         what will be done there and here, from the survey; pure
capacity     what a batch system tells of its processors, GPUs and queues
bring_up     the plan carried out
wheel        the installed program as a wheel, for hosts that cannot fetch it
site_record  sites that this user has connected, for `koala site login`
"""
