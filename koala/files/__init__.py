"""Files of a site: the replicas it holds, the copies it fetches and serves, the outputs it sends.

The target of a copy reads from the source's server, or from the relay beside the daemon. The source
dials the relay; the target sees no difference.

`transfer` is the pure state machine of one copy; `transfer_events` has its events and actions, and
`transfer_driver` carries them out. `bandwidth_limits` paces the links. `names` and
`confined_folder` keep every name inside its folder. The other modules do the input and output;
`koala_agent.files` puts them together.

Invariants:

- Nothing outside the store, the spool folder or a claim's work folder is opened, whatever the name
  says and whoever swaps links meanwhile.
- No file is ever whole in memory.
- A copy is reported finished only when its bytes on the disk have the checksum that the source
  promised.

Absent on purpose: the replica catalogue and the choice of a source. They belong to the daemon.
"""
