"""Run `koala-agent`, also as `python -m koala_agent`."""

import sys

from koala.common.wire.grpc_variables import set_grpc_variables


def main() -> int:
    """Run the command, and return the exit status."""
    set_grpc_variables()
    from koala_agent.main import main as run  # noqa: PLC0415 - imports gRPC

    return run()


if __name__ == "__main__":
    sys.exit(main())
