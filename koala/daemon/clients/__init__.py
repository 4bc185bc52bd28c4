"""The daemon's service for clients: one module a kind of call.

service              the gRPC methods; each delegates to one of the following
submit_service       accept jobs; `rsl_parsing` reads descriptions, `admission` rejects
listing              lists of jobs, a page at a time; `archive_queries` for jobs of the past
event_feed           notices for watchers, from memory or the journal
logs, outputs        what programs wrote, and output files
site_status          sites as documents for people
"""
