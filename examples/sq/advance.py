"""A component that computes until its work is done or its time is up, and says how far it is.

    advance.py --work PROCESSOR-SECONDS --seconds SECONDS [--processor NUMBER]

Every fifth of a second it prints the instant and the processor-seconds that it has used; with
`--processor` it runs there and nowhere else. It does nothing for being kept together with others:
its starter measures and holds it.
"""

import argparse
import os
import sys
import time

STEP_S = 0.2
CHUNK = 20_000


def main() -> None:
    """Until it is done."""
    options = _options(sys.argv[1:])
    if options.processor is not None:
        os.sched_setaffinity(0, {options.processor})
    end = time.time() + options.seconds
    tell_at = 0.0
    while (now := time.time()) < end and time.process_time() < options.work:
        if now >= tell_at:
            print_progress(now)
            tell_at = now + STEP_S
        sum(range(CHUNK))
    print_progress(time.time())


def print_progress(now: float) -> None:
    """Print the time and the processor time used, for a later look."""
    print(f"{now:.3f} {time.process_time():.3f}", flush=True)


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--processor", type=int)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
