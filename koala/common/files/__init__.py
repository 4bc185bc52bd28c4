"""Files of a site: the replicas it holds, the copies it fetches and serves, the outputs it sends.

The target of a copy reads from the source's server, or from the relay beside the daemon. The source
dials the relay; the target sees no difference.

exchange           the one way of bytes: Get and Put, their senders and receivers, over `channels`
parts              parts of files as they are received, and read with their checksum
retries            when a move of bytes is tried again
transfer           the pure state machine of one copy; `transfer_driver` does what it asks for
bandwidth_limits   pace the copies of each link
server             serves parts of files to other sites
replica_store      the replicas of a site
incoming           the spool folder of copies that are under way
uploads            output files and logs on their way to the daemon's spool
orders             orders of uploads, and the reports of copies and uploads
archives           staged programs, packed and unpacked; `tar_reader` reads any tar file of others
names              logical file names; with `confined_folder` every name stays inside its folder

`koala_agent.files` puts them together.

Invariants:

- Nothing outside the store, the spool folder or a claim's work folder is opened, whatever the name
  says and whoever swaps links meanwhile.
- No file is ever whole in memory.
- A copy is reported finished only when its bytes on the disk have the checksum that the source
  promised.

Absent on purpose: the replica catalogue and the choice of a source. They belong to the daemon.
"""
