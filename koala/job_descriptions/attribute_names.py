"""Names of attributes: their spellings, plain names and aliases, and the lookup by any of them.

Names compare as in GRAM 5: without regard to case and underscores. Some attributes have a plain
name beside the one of GRAM or DUROC (`site` for resourceManagerContact), which every form of a
description takes.
"""

from __future__ import annotations

import re

from koala.job_descriptions.attributes import ATTRIBUTES, Attribute, Treatment
from koala.job_descriptions.evaluation import canonical_name, nearest

PLAIN_NAMES = {row.name: row.plain for row in ATTRIBUTES if row.plain}
ALIASES = {row.alias: row.name for row in ATTRIBUTES if row.alias}

KNOWN: dict[str, Attribute] = {
    **{canonical_name(row.name): row for row in ATTRIBUTES},
    **{canonical_name(PLAIN_NAMES[row.name]): row for row in ATTRIBUTES if row.name in PLAIN_NAMES},
}
KNOWN.update({canonical_name(name): KNOWN[canonical_name(of)] for name, of in ALIASES.items()})
KEYS = {row.name: canonical_name(row.name) for row in ATTRIBUTES}
"""Canonical names of the attributes."""
DEFINITION = "rsl_substitution"
_AS_SPELT = {row.name: row for row in ATTRIBUTES}
_SPELT = {
    **{canonical_name(name): name for name in (*PLAIN_NAMES.values(), *ALIASES)},
    **{canonical_name(row.name): row.name for row in ATTRIBUTES},
}


def find_attribute(name: str) -> Attribute | None:
    """Find an attribute by any spelling of its name; None for an unknown one."""
    return _AS_SPELT.get(name) or KNOWN.get(canonical_name(name))


def plain_name(row: Attribute) -> str:
    """Return an attribute's name in YAML and JSON: the plain one, in snake case."""
    return PLAIN_NAMES.get(row.name) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", row.name).lower()


def known_names_near(name: str) -> list[str]:
    """Return the known attributes most like an unknown one, best first; prefixes count, such as
    `exe`."""
    canonical = canonical_name(name)
    taken = (Treatment.HONOURED, Treatment.HANDED)
    honoured = [key for key, row in KNOWN.items() if row.treatment in taken]
    begun = [key for key in honoured if len(canonical) > 2 and key.startswith(canonical)]
    near = begun + nearest(canonical, honoured) or nearest(canonical, KNOWN)
    return list(dict.fromkeys(_SPELT[key] for key in near))
