"""Which names there are on the link: one pattern for both ends, so that neither says what the other
would not take."""

from __future__ import annotations

import re

CLAIM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}(/[0-9]{1,9}){3}")
"""job/attempt/component/n."""
TRANSFER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}/[0-9]{1,9}/t[0-9]{1,9}")
SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
