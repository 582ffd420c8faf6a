"""Whether the last record of each key is the table's row, and what came twice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from faultlab.verdict import Read

Row = tuple[Any, Any]


@dataclass
class Verdict:
    """What a table's topic holds beside the table."""

    records: int = 0
    doubled: int = 0
    """Records that say what the record before them of the same key has said."""
    wrong: dict[Any, tuple[Any, Any]] = field(default_factory=dict)
    """By key: what the topic says last, and the row; None: there is none."""


def judge(rows: Mapping[Any, Row], read: Sequence[Read], *, deletes: bool) -> Verdict:
    """Compare a topic with its table.

    Args:
        deletes: whether deleted rows have to have a tombstone.
    """
    verdict, last = Verdict(records=len(read)), {}
    for record in read:
        key = record.value["id"] if record.key is None else record.key["id"]
        verdict.doubled += key in last and last[key] == record.value
        last[key] = record.value
    said = {key: (value["n"], value["note"]) for key, value in last.items() if value is not None}
    for key in {*rows, *said} if deletes else rows:
        if said.get(key) != rows.get(key):
            verdict.wrong[key] = (said.get(key), rows.get(key))
    return verdict
