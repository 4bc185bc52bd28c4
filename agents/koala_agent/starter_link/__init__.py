"""The link to the starters of claims: the agent's end of it.

listener         the port at which starters and couriers check in, and their connections
inherited_lines  connections that starters of this machine inherit: they need not dial
mailbox          the same connections by files, for starters that can dial nobody
authentication   a starter, a courier and the agent prove to one another that they know the secret
codec            JSON lines of starters as events of the claim table
"""
