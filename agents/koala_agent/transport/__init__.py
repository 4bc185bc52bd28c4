"""Transport: how the agent runs commands at its site, and reads and writes files there.

interface         the interface, and the values that it exchanges
shell             the local transport's commands: the batch system's commands are on this machine
command_budget    how often the batch system of a login is asked in a minute
local             the local transport: commands and files of this machine
ssh               the ssh transport: all of it over one connection of the OpenSSH client
ssh_host          a host as sites of one process share it: connection, budget, session for files
ssh_connection    a site's use of the connection: set-up, loss, return, the starters' port
ssh_socket        the connection's socket (ControlMaster): its place, its lock, a person's login
ssh_words         command lines and messages of the OpenSSH client, as pure functions
file_calls        calls on files, by a Python of either end that has nothing of Koala
site_files        files of either by these calls; over ssh a process there makes them
"""
