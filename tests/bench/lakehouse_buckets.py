"""Changes of random keys on current states of a tenth of `rows`, and of `rows`, without partitions and by buckets of the key.

Both layouts stand side by side in one session, and each batch goes to one after the other, so that load and warmth are the same
for both. What is measured is the current state's commit only: the best of some, wall seconds and CPU seconds of the JVM.
"""

import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.changes import POSITION_FIELDS, CurrentShape
from tidings_lakehouse.layout_rules import layout_rules
from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.spark.session import create_session, stop_gateway
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.tables import Table
from tidings_lakehouse.writing.replacing import replace_rows

_LAYOUTS = ("none", "bucket(16)", "bucket(128)")
_CHANGES = (10, 200, 10_000)
_TIMES = 3
_FIELDS = [st.StructField("id", st.LongType()), st.StructField("note", st.StringType())]
_SHAPE = CurrentShape(
    {"id": "id"}, {field.name: field.name for field in _FIELDS}, st.StructType([*_FIELDS, *POSITION_FIELDS])
)


def run(rows: int) -> None:
    """Make the tables, then change some of their rows."""
    with tempfile.TemporaryDirectory() as directory:
        session = create_session(WarehouseSettings(lakehouse_warehouse=directory), "bench")
        try:
            for held in (rows // 10, rows):
                tables = {layout: _table(session, layout, held) for layout in _LAYOUTS}
                for changes in _CHANGES:
                    _measure(session, tables, held, changes)
        finally:
            session.stop()
            stop_gateway(session)


def _table(session: Any, layout: str, rows: int) -> Table:
    name = f"technical.t{rows}_{''.join(filter(str.isalnum, layout))}"
    table = Table(session, name, "t", Commits(session, layout_rules(f".*={layout}")))
    table.ensure(_SHAPE.schema, keys=["id"])
    made = session.range(rows).select("id", sf.repeat(sf.hex(sf.xxhash64("id")), sf.lit(4)).alias("note"))
    for field in POSITION_FIELDS:
        value = sf.lit(1) if isinstance(field.dataType, st.LongType) else sf.lit(None)
        made = made.withColumn(field.name, value.cast(field.dataType))
    table.append(made)
    return table


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _measure(session: Any, tables: dict[str, Table], held: int, changes: int) -> None:
    jvm = session._jvm.java.lang.ProcessHandle.current().pid()
    best: dict[str, tuple[float, float]] = {}
    for turn in range(_TIMES):
        keys = random.Random(f"{held} {changes} {turn}").sample(range(held), changes)
        for layout, table in tables.items():
            newest = session.createDataFrame([(key,) for key in keys], "id long").withColumn(
                "op", sf.lit("u")
            )
            newest = newest.withColumn("note", sf.lit("changed"))
            for field in POSITION_FIELDS:
                value = sf.lit(2 + turn) if isinstance(field.dataType, st.LongType) else sf.lit(None)
                newest = newest.withColumn(field.name, value.cast(field.dataType))
            newest = newest.persist()
            newest.count()
            cpu, began = _cpu_seconds(jvm), time.monotonic()
            buckets = table.buckets(["id"])
            table.write(
                lambda name, newest=newest, buckets=buckets: replace_rows(  # type: ignore[misc]
                    session,
                    name,
                    newest,
                    _SHAPE,
                    rows_held=held,
                    is_newer=True,
                    most=changes,
                    buckets=buckets,
                )
            )
            took = time.monotonic() - began, _cpu_seconds(jvm) - cpu
            best[layout] = min(best.get(layout, took), took)
            newest.unpersist()
    for layout, (wall, cpu) in best.items():
        print(
            f"{held:>11,} rows, {changes:>6,} changes, {layout:<12} {wall:6.2f} s, CPU {cpu:6.2f} s",
            flush=True,
        )
