"""What a person names as the rows to erase, and whose a quarantined record is."""

from __future__ import annotations

import io
import json
import struct
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from pyspark.sql import types as st

from tidings_lakehouse.cli import main
from tidings_lakehouse.erasing.quarantine import RecordReader, is_of
from tidings_lakehouse.erasing.selection import (
    Condition,
    Selection,
    check_key,
    condition_on_log,
    condition_on_rows,
)
from tidings_lakehouse.errors import ErasureError

ROW = st.StructType(
    [
        st.StructField("id", st.LongType()),
        st.StructField("id__string", st.StringType()),
        st.StructField("id__other", st.StringType()),
        st.StructField("note", st.StringType()),
        st.StructField("paid", st.DecimalType(10, 2)),
        st.StructField("tags", st.ArrayType(st.StringType())),
        st.StructField("who", st.StructType([st.StructField("na`me", st.StringType())])),
    ]
)
KEY = st.StructType([st.StructField("id", st.LongType())])
LOG = st.StructType([st.StructField("key", KEY), st.StructField("before", ROW), st.StructField("after", ROW)])


def selection(*conditions: str, key: bool = False) -> Selection:
    return Selection("technical.t", tuple(Condition.of(one, is_key=key) for one in conditions))


def equal(path: str, value: str, type_name: str) -> str:
    return f"{path} = try_cast(CAST('{value}' AS string) AS {type_name})"


def test_a_log_has_a_value_in_its_key_or_a_row_before_or_after() -> None:
    row = [
        f"({equal(f'`{part}`.`id`', '7', 'bigint')} OR {equal(f'`{part}`.`id__string`', '7', 'string')})"
        for part in ("before", "after")
    ]
    key = f"({equal('`key`.`id`', '7', 'bigint')})"
    assert condition_on_log(selection("id=7"), LOG) == f"({key}) OR ({row[0]}) OR ({row[1]})"
    both = condition_on_log(selection("note=it's", "paid=1.5"), LOG)
    assert "`key`" not in both
    assert equal("`after`.`note`", "it\\'s", "string") in both
    assert both.count(" AND ") == 2


def test_a_field_of_a_column_is_named_by_a_path() -> None:
    assert condition_on_rows(selection("who.na`me=x"), ROW) == f"({equal('`who`.`na``me`', 'x', 'string')})"


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("other=7", "technical.t has no columns other"),
        ("who.other=7", "technical.t has no columns who.other"),
        ("tags=7", "of the type array<string>, which is not compared"),
        ("paid=much", "the value given for the column paid is not a decimal"),
    ],
)
def test_what_cannot_be_compared_is_refused_without_the_value(named: str, why: str) -> None:
    with pytest.raises(ErasureError, match=why) as refused:
        condition_on_log(selection(named), LOG)
    assert "much" not in f"{refused.value} {refused.value.hint}"


def test_the_key_is_all_of_its_columns() -> None:
    check_key(selection("id=7", "line=1", key=True), ["line", "id"])
    check_key(selection("id=7"), ["line", "id"])
    for named, key in ((["id=7"], ["id", "line"]), (["id=7", "note=x"], ["id"]), (["id=7"], [])):
        with pytest.raises(ErasureError, match="is not the key of"):
            check_key(selection(*named, key=True), key)


def test_a_digest_is_of_the_values_and_the_salt() -> None:
    one = selection("a=1", "b=2")
    assert one.digest("s") == selection("b=2", "a=1").digest("s")
    assert len({one.digest("s"), one.digest("t"), selection("a=1", "b=3").digest("s")}) == 3


SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Key",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "paid", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
    ],
}


class Schemas:
    """A registry with one schema that can be read, and one that cannot."""

    def close(self) -> None: ...

    def check(self) -> None: ...

    def by_id(self, schema_id: int) -> Any:
        return {1: SCHEMA, 2: {"type": "nothing"}}.get(schema_id)

    def latest(self, subject: str) -> None: ...


def avro(schema_id: int, **row: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(dict(SCHEMA)), row)
    return struct.pack(">bI", 0, schema_id) + body.getvalue()


def as_json(value: Any, schema: Any = None) -> bytes:
    return json.dumps(value if schema is None else {"schema": schema, "payload": value}).encode()


SEVEN = {"before": None, "after": {"id": 7, "name": "x"}}
EIGHT = {"before": None, "after": {"id": 8, "name": "x"}}


@pytest.mark.parametrize(
    ("named", "key", "value", "wanted"),
    [
        (["id=7"], avro(1, id=7, paid=Decimal("1.50")), b"broken", True),
        (["id=7", "paid=1.5"], avro(1, id=7, paid=Decimal("1.50")), b"broken", True),
        (["id=7"], avro(1, id=8, paid=Decimal("1.50")), as_json(SEVEN), False),  # the key decides
        (["id=7"], avro(1, id=7, paid=Decimal("1.50"))[:-1], b"broken", None),
        (["id=7"], avro(1, id=7, paid=Decimal("1.50")) + b"x", None, None),
        (["id=7"], avro(2, id=7, paid=Decimal("1.50")), b"broken", None),
        (["id=7"], avro(3, id=7, paid=Decimal("1.50")), None, None),
        (["id=7"], as_json({"id": 7}), None, True),
        (["id=7"], as_json({"id": 7}, {"type": "struct"}), None, True),
        (["name=x"], as_json({"id": 7}), None, False),
        (["name=x"], as_json({"id": 7}), as_json(SEVEN), True),
        (["name=x"], as_json({"id": 7}), as_json(SEVEN, {}), True),
        (["name=y"], as_json({"id": 7}), as_json(SEVEN), False),
        (["name=x"], as_json({"id": 7}), b"\xff", None),
        (["name=x"], None, as_json({"name": "x"}), None),
        (["name=x"], None, as_json(["x"]), None),
        (["id=7"], None, as_json({"before": SEVEN["after"], "after": EIGHT["after"]}), True),
        (["name=x"], as_json({"id": 7}), as_json({"before": None, "after": {"name": ["x"]}}), None),
    ],
)
def test_whose_a_quarantined_record_is(
    named: list[str], key: bytes | None, value: bytes | None, wanted: bool | None
) -> None:
    records = RecordReader(Schemas())
    assert is_of(selection(*named), records.read(key), records.read(value), (), is_change=True) is wanted


def test_whose_a_quarantined_event_is() -> None:
    records, headers = RecordReader(Schemas()), [("CE_Subject", b"7"), ("other", b"8")]

    def told(named: str, value: Any) -> bool | None:
        return is_of(selection(named), None, records.read(as_json(value)), headers, is_change=False)

    assert told("ce_subject=7", {}) is True
    assert told("ce_subject=8", {}) is False
    assert told("who.id=7", {"who": {"id": 7}}) is True
    assert told("who.id=7", {"who": None}) is None
    assert told("other=8", {}) is None


def test_options_belong_to_the_table_before_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["erase", "--key", "id=7", "--table", "technical.t"])
    assert "--key belongs to the --table before it" in capsys.readouterr().err


def test_a_job_that_cannot_be_seen_has_to_be_said_to_be_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", "s3a://lake/warehouse")
    monkeypatch.setenv("TIDINGS_REGISTRY", "http://registry.invalid")
    assert main(["erase", "--table", "technical.t", "--key", "id=7", "--yes"]) == 1
    assert "--job-is-stopped" in capsys.readouterr().err
