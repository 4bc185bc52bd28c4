"""The daemon's part in moving files.

relay            proxy process for file bytes of sites without an open port
relay_process    that process under the daemon's supervision; `relay_settings` are sent to it, and
                 `relay_metrics` serves what it carries
carried_connections  the ends of connections to ports of programs, joined
relay_pairings   reader and source of a transfer, joined by a pipe
additions        files on their way from the spool to a site, and removals there
uploads          contents that clients uploaded
transfer_tokens  proof that the daemon ordered a transfer or an upload
spool            folder of the jobs' outputs and logs
"""
