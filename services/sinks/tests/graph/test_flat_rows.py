"""Rows of scalars are made properties all at once: the same as one by one."""

import random
from typing import Any

import pytest
from column_records import AT, KEY, KINDS, enveloped, struct

from tidings_connect.task.sink import SinkRecord
from tidings_envelope.schema import ConnectSchema, ConnectType, Field
from tidings_envelope.toast import UNAVAILABLE
from tidings_sinks.errors import RowError
from tidings_sinks.graph import row_plans as module
from tidings_sinks.graph.operations import Operations
from tidings_sinks.graph.rows import RowChange
from tidings_sinks.graph.settings import read_settings

SCALARS = [name for name in KINDS if name != "list"]
PATTERNS = [
    "(:Row {!id, *})",
    "(:Row {!id, *, -n, -t})",
    "(:Row {!id, number: n, t})",
    "(:Row {!id, *, number: n})",
    "(:Row {!id, a: t, b: t})",
    "(:Row {!id, n: t, t: n})",
    "(:Row {!id, *}), -[:OF]->(:Kind {!name: t})",
    "(:Row {!key: id, *})",
]


def read(pattern: str, records: list[SinkRecord]) -> list[Any]:
    """What records ask for, or why they cannot be rows."""
    config = {
        "neo4j.uri": "bolt://nowhere",
        "neo4j.authentication.type": "NONE",
        f"tidings.row.topic.{AT.topic}": pattern,
    }
    operations = Operations(read_settings("sink", config))
    found: list[Any] = []
    for record in records:
        try:
            change = operations.read(record)
        except RowError as error:
            found.append(str(error))
            continue
        assert isinstance(change, RowChange)
        found.append((change.keys, change.deletes, change.properties, change.cleared, change.ends))
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_the_same_as_property_by_property(
    monkeypatch: pytest.MonkeyPatch, pattern: str, seed: int
) -> None:
    chance = random.Random(f"{pattern} {seed}")
    names = chance.sample(list(KINDS) if chance.random() < 0.3 else SCALARS, 4)
    names += [name for name in ("n", "t") if name not in names]
    plain = struct(names)
    row_schema = ConnectSchema(
        ConnectType.STRUCT,
        name="t.Row",
        fields=(Field("id", ConnectSchema(ConnectType.INT32)), *plain.fields),
        optional=True,
    )
    envelopes = chance.random() < 0.5
    records = []
    for offset in range(60):
        row = {
            "id": offset,
            **{name: KINDS[name][1](chance) if chance.random() < 0.9 else None for name in names},
        }
        what = chance.random()
        if what < 0.1:
            row["t"] = UNAVAILABLE
        elif what < 0.15:
            del row[chance.choice(names)]
        elif what < 0.2:
            row["more"] = 1
        elif what < 0.25:
            row["list" if "list" in names else "t"] = [UNAVAILABLE]
        elif what < 0.3:
            row["id"] = None
        value: Any = (
            {"before": None, "after": row, "source": {"table": "orders"}, "op": "u"} if envelopes else row
        )
        schema = enveloped(row_schema) if envelopes else row_schema
        records.append(SinkRecord(AT.topic, 0, KEY[1], {"id": offset}, schema, value, None, [], offset, AT))
    found = read(pattern, records)
    monkeypatch.setattr(module, "_flat", lambda *_: None)
    assert found == read(pattern, records)


def test_a_plain_table_s_rows_are_flat() -> None:
    """Else the comparison would be one of the same way."""
    schema = struct(SCALARS)
    config = {
        "neo4j.uri": "bolt://nowhere",
        "neo4j.authentication.type": "NONE",
        "tidings.row.topic.t": "(:Row {!n, *})",
    }
    operations = Operations(read_settings("sink", config))
    row = dict.fromkeys(SCALARS) | {"n": 7}
    change = operations.read(SinkRecord("t", 0, None, None, schema, row, None, [], 0, AT))
    assert isinstance(change, RowChange)
    (plan,) = (plan for plan in change.rows._plans._plans.values() if plan.schema is schema)
    assert plan.flat is not None
    assert plan.flat.of(row) == change.properties == {name: None for name in SCALARS if name != "n"}
