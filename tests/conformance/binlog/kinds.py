"""A table of every type that Debezium's connector for MariaDB reads as the server has it, and rows for it."""

import random
import re

from mariadb_parts import EVERY_TYPE
from mariadb_values import EDGES, insert

NOT_PARSED = ("i6", "i4", "u", "vz", "bz")
"""Debezium's parser fails on tables with these, or (COMPRESSED) its reader of the log on their rows."""
KNOWN = {
    "y": ["0"],
    "ts": ["'0000-00-00 00:00:00'"],
    "e": ["'b,c'"],
    "f": ["3.4028235e38", "1234.567"],
    "v16": ["'ab😀'"],
    "vlat": ["_latin1 x'81'"],
}
"""Values of which Debezium makes others."""


def kinds_table() -> str:
    """The statement that makes it."""
    return re.sub("|".join(rf"\b{name} [A-Z0-9() ]+,\s" for name in NOT_PARSED), "", EVERY_TYPE)


def kinds(chance: random.Random) -> str:
    """A statement that inserts a row."""
    values = {}
    for name, found in EDGES.items():
        usable = [value for value in found if value not in KNOWN.get(name, ())]
        if usable and name not in NOT_PARSED and chance.random() < 0.7:
            values[name] = chance.choice(usable)
    return insert(values)
