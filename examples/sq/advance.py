"""A component that computes until it has done its work, or its time is up, and says how far it is.

    advance.py WORK SECONDS [PROCESSOR]

WORK is in processor-seconds, SECONDS on the clock; with PROCESSOR it runs there and nowhere else.
Every fifth of a second it prints the instant and its processor-seconds. It does nothing for being
kept together with others: its starter measures and holds it.
"""

import os
import sys
import time

STEP_S = 0.2
CHUNK = 20_000


def main() -> None:
    """Until done."""
    work, limit_s = float(sys.argv[1]), float(sys.argv[2])
    if len(sys.argv) > 3:
        os.sched_setaffinity(0, {int(sys.argv[3])})
    begun = tell_at = time.time()
    while True:
        now, used = time.time(), time.process_time()
        is_over = used >= work or now - begun >= limit_s
        if now >= tell_at or is_over:
            print(f"{now:.3f} {used:.3f}", flush=True)
            tell_at = now + STEP_S
        if is_over:
            return
        sum(range(CHUNK))


if __name__ == "__main__":
    main()
