"""Connection to the agent through files, for machines that can dial nobody.

Login node and compute nodes share a folder, the mailbox:

    MAILBOX/up/SESSION.N       message N of a starter or file sync to the agent
    MAILBOX/down/SESSION/N     message N of the agent to it

- A session is what a connection is on a socket. It begins with its folder below `down`, whose name
  has the claim and a random number. When that folder is gone, the connection is lost.
- A message holds JSON lines, or a part of a long one, after a line with its seal: a keyed hash
  over direction, session, number and content. A message without content ends the session.
- Each file is written under another name and renamed. Its one reader removes it; there are no
  locks.
- Readers list a folder and never try names: NFS clients look again at a folder that is opened, and
  keep for many seconds what they know of names that were missing.
- Messages count in the order of their numbers and once each, in whatever order they become
  visible.

Only files of our own account count, in folders that nobody else may write. The *mailbox
client*, a child process, reads and writes them, because a file server that hangs must not delay the
leases that are to end programs. The starter talks to it through a socket, as it would to the agent.

layout    names and seals of messages, for both ends
client    the process beside a starter, or its file sync
"""
