"""Run the daemon: `python -m koala.daemon CONFIG.toml`."""

import sys

from koala.common.wire.grpc_variables import set_grpc_variables


def main() -> int:
    """Run the daemon, and return the exit status."""
    set_grpc_variables()
    from koala.daemon.main import main as run  # noqa: PLC0415 - imports gRPC

    return run()


if __name__ == "__main__":
    sys.exit(main())
