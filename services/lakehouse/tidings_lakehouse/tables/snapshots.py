"""What a table's snapshots say: which one readers see, what its writers have noted of it, whether only compactions came since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

PROGRESS_PROPERTY = "tidings.progress"
"""JSON: what the table's writers note of what it holds, with the snapshot and the number of rows of which it is true."""
REPLACE = "replace"
"""The operation of a compaction."""
ROWS = "total-records"
"""How many rows there are, in a snapshot's summary."""


def head_of(table: Any) -> int | None:
    """The snapshot that readers see; None while there is none."""
    snapshot = table.currentSnapshot()
    return None if snapshot is None else int(snapshot.snapshotId())


def noted_in(table: Any) -> dict[str, Any]:
    """What the table's writers have noted of it (`PROGRESS_PROPERTY`); empty where it is not true of what the table holds now."""
    text, head = table.properties().get(PROGRESS_PROPERTY), table.currentSnapshot()
    if not text or head is None:
        return {}
    found: dict[str, Any] = json.loads(str(text))
    snapshot, rows = found.pop("snapshot", None), found.pop("rows", None)
    one = head
    while one is not None and one.snapshotId() != snapshot:
        if one.operation() != REPLACE:
            return {}
        parent = one.parentId()
        one = None if parent is None else table.snapshot(parent)
    # The snapshot itself may have expired behind compactions, which leave the number of a log's rows as it is.
    return found if one is not None or int(head.summary().get(ROWS) or 0) == rows else {}


def progress_text(table: Any, noted: Mapping[str, Any], snapshot: int) -> str:
    """What `PROGRESS_PROPERTY` is for something noted that is true of a snapshot."""
    rows = int(table.snapshot(snapshot).summary().get(ROWS) or 0)
    return json.dumps({**noted, "snapshot": snapshot, "rows": rows}, separators=(",", ":"))


def is_only_compacted(table: Any, begun: int) -> bool:
    """Whether nothing but compactions stands between `main` and the snapshot that a write began with."""
    snapshot = table.currentSnapshot()
    while snapshot is not None and snapshot.snapshotId() != begun:
        if snapshot.operation() != REPLACE:
            return False
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)
    return snapshot is not None
