"""The link to the starters of claims: the agent's end of it.

listener               the port at which starters and file syncs check in, and their connections
mailbox                the same connections by files, for starters that can dial nobody
ports                  connections to ports of programs, between starters and the relay
authentication         proofs, in both directions, that the other end knows the claim's secret
encryption             the agent's key for connections to ports
codec                  JSON lines of starters as events of the claim table
"""
