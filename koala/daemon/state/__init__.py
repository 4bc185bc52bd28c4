"""The state directory, from the first start to a restore. Its journal is in `koala.daemon.storage`.

initialization   a new directory, but never one whose disk is only unmounted
recovery         the state at a start: a snapshot, and the later events
kept_clock       the clock across restarts
backup           back up while the daemon runs, and restore
"""
