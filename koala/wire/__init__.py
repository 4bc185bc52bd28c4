"""gRPC transport between daemon, agents and clients: generated messages in `v1`."""
