"""A lake of one captured table, written by pyiceberg: for what only reads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog


def write_lake(
    directory: Path,
    name: str,
    topic: str,
    state: pa.Table,
    changes: Sequence[tuple[int, object]],
    *,
    watermark: int,
) -> None:
    """Write `technical.<name>`, its log and the watermark, as the job lays them out.

    Args:
        state: the current state; its first column is the key.
        changes: of the log, each with its transaction and its key.
    """
    key = state.schema.field(0)
    log = pa.Table.from_pylist(
        [{"op": "u", "tx_id": tx_id, "key": {key.name: value}} for tx_id, value in changes],
        pa.schema([("op", pa.string()), ("tx_id", pa.int64()), ("key", pa.struct([(key.name, key.type)]))]),
    )
    tables = (f"technical.{name}", f"technical.{name}_log")
    marks = pa.Table.from_pylist(
        [
            {"stream": "technical", "table_name": table, "topic": topic, "commit_lsn": watermark}
            for table in tables
        ]
    )
    uri = f"sqlite:///{directory}/catalog.db"
    with closing(SqlCatalog("lake", uri=uri, warehouse=directory.as_uri())) as catalog:
        for namespace in ("technical", "tidings"):
            catalog.create_namespace_if_not_exists(namespace)
        for table, rows in (*zip(tables, (state, log), strict=True), ("tidings.watermark", marks)):
            catalog.create_table(table, rows.schema).append(rows)
