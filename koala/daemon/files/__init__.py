"""The daemon's part in moving files.

relay    proxy process for file bytes of sites without an open port
spool    folder of the jobs' outputs and logs
"""
