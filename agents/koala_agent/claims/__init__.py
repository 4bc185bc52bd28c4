"""The claims of a site: what was asked, what became of each, and what the daemon was told.

table                the claim table, a pure state machine; `events`, `states`, `ends` its parts
pending_requests     key-value requests of starters that the daemon has not answered
store                claims on disk; `committed` knows what is stored and may be reported
messages             orders and reports of claims, as the link carries them
"""
