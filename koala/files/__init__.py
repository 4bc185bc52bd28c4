"""Files of a site: replicas that it holds, copies that it fetches and serves, outputs it sends.

The target of a copy reads from the source's own server, or from the relay beside the daemon, which
the source dials; it sees no difference. `transfer.py` is the pure machine of one copy, `rates.py`
the pure token bucket; `names.py` and `folders.py` keep every name inside its folder. The rest are
thin carriers, put together by `Files` in `carrier.py`.

Invariants: nothing is opened outside the store, the spool folder or a claim's work folder, whatever
the name says and whoever swaps links meanwhile; no file is ever whole in memory; a copy is told
finished only when its bytes on the disk have the checksum that the source promised. Absent on
purpose: the catalogue of replicas and the choice of a source, which are the daemon's.
"""
