"""Transport: how the agent runs commands at its site, and reads and writes files there.

port              the interface, and the values that it exchanges
shell             the local transport's commands: the batch system's commands are on this machine
local             the local transport: commands and files of this machine
ssh               the ssh transport: all of it over one connection of the OpenSSH client
ssh_connection    the shared connection (ControlMaster): start, loss, return, the starters' port
ssh_words         command lines and messages of the OpenSSH client, as pure functions
sftp              files over the shared connection
"""
