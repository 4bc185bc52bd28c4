"""Files at the daemon: the relay process and the spool of outputs and logs."""
