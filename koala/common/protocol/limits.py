"""Limits of messages on the link and of their values, applied at both ends.

The starter is copied to nodes without this package, so it repeats no limit: its agent checks.
"""

from __future__ import annotations

MESSAGE_BYTES_MAX = 4 * 2**20
"""Bytes of a message that an agent sends or receives."""
REQUEST_BYTES_MAX = 16 * 2**20
"""Bytes of a message that the daemon receives, of an agent or a client."""
NAME_MAX = 256
"""Characters of a name."""
FILE_NAME_MAX = 4096
"""Characters of a logical file's name."""
REASON_MAX = 2_000
"""Characters of a reason; the rest is cut off."""
INSTANT_MAX = 2.5e11
"""Seconds; later instants have no date."""
AMOUNT_MAX = 2.0**53
"""Largest amount: a float still counts integers exactly up to here."""
WORK_MAX = 1e30
"""Largest progress, whose unit is the program's own."""
RATE_MIN = 1e-3
"""Bytes a second. A lower rate would mean a pause that no clock can count."""
PORT_MAX = 65_535
BYTES_MAX = 2**62
"""Largest size or offset: SQLite and the journal's JSON have signed 64-bit integers."""
PROCESSORS_MAX = 10_000_000
HOSTS_MAX = 4096
"""Hosts of one allocation."""
STATUSES_MAX = 65_536
"""Exit statuses of one claim."""
HONOURS_MAX = 100
USERS_MAX = 10_000
ENDLESS_S = 1e8
"""Time that stands for no end."""
HOLES_MAX = 8
"""Holes of one site that are reported."""
WAITS_MAX = 10_000
"""Claims of one site whose waits are reported."""
PORTS_MAX = 4096
"""Most paths to ports of one claim."""
OUTLOOK_MAX = 100
WATERMARK_BYTES_MAX = 64
"""Bytes of a watermark's chain, and of its seal."""
NAMES_MAX = 1_000
"""Names in one list of a site's resources, or of a component's licences."""
