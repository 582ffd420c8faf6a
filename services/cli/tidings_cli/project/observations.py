"""What a person should know of tables before they write rules: read from names and types, so it may be wrong."""

import re
from collections.abc import Iterator, Sequence

from tidings_domain.starting.tables import Table

_GONE = re.compile(r"^(deleted|removed|archived|cancelled|canceled)_(at|on|date)$|^is_deleted$|^deleted$")
_CENTS = re.compile(r"(^|_)(cents|pence|minor)$")


def observe(tables: Sequence[Table]) -> Iterator[str]:
    """Sentences, in the order of the tables."""
    for table in tables:
        if table.partitioned:
            yield f"{table.name} is partitioned: it is captured as one table"
        if not table.key and table.identity:
            yield f"{table.name} has no primary key but a replica identity: it is captured, and no aggregate"
        if not table.identity:
            yield (
                f"{table.name} has no primary key and no replica identity: it is not captured, since PostgreSQL would refuse its"
                " updates"
            )
        for column in table.columns:
            if _GONE.search(column.name):
                yield (
                    f"{table.name}.{column.name} looks like a soft deletion: the row stays, so that it has gone is news of a rule"
                    f" (changed and no longer None), not of change.deleted"
                )
            elif _CENTS.search(column.name):
                yield f"{table.name}.{column.name} looks like money in cents: keep it a long in contracts, and name the currency"
        if any(key.table == table.name for key in table.foreign_keys):
            yield f"{table.name} refers to itself, a tree: the row above is a reference, and knows nothing of the one above that"
