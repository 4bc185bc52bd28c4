"""The daemon's service for clients: one module for each kind of call.

service           the gRPC methods; each delegates to one of the following
submit_service    accept jobs; `rsl_parsing` reads descriptions, `admission` rejects
input_names       input files of a submission; `staging`: its staged programs
listing           paged lists of jobs, archived ones included
watch_streams     the notices that a watcher asked for and may see
logs, outputs     standard output and error of programs, and output files
file_service      upload, add, list and remove files of sites
notification_service   how a user is told, and what could not be delivered
group_service     documents of groups; tells limits to the core
site_status       sites as documents for people
"""
