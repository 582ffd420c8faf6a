"""Records of JSON without a schema that are kept in the log as their text, without types: ``TIDINGS_LAKEHOUSE_TEXT``. No I/O.

A value has to be JSON, a key a text of UTF-8; what they say is not looked at but for Debezium's position and operation, which are
null where a value is not such a change. Numbers there may be numbers or texts.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.binlog import number_of_commit
from tidings_lakehouse.formats.avro_nodes import Node

KEY_TEXT, VALUE_TEXT = "key_text", "value_text"
"""The log's columns."""
TEXT_FIELDS = (st.StructField(KEY_TEXT, st.StringType()), st.StructField(VALUE_TEXT, st.StringType()))
CHANGE = "text_change"
"""A column with Debezium's own fields of a change that is kept as text."""
BINLOG_CHANGE = "text_change_of_binlog"
"""The same of a change with a GTID or the number of its commit, else null."""
BINLOG_ENVELOPE = Node("record", fields=(("transaction", Node("record")),))
_TYPES = {
    "op": "string",
    "source.ts_ms": "bigint",
    "source.ts_us": "bigint",
    "source.snapshot": "string",
    "source.sequence": "string",
    "source.txId": "bigint",
    "source.lsn": "bigint",
    "source.gtid": "string",
    "transaction.total_order": "bigint",
}
_PARSED = {"key": "key_json", "value": "value_json"}
_REASONS = {
    "key": "neither in the wire format, with magic byte 0 and schema id, nor text in UTF-8",
    "value": "neither in the wire format, with magic byte 0 and schema id, nor JSON",
}


def parsed() -> list[Column]:
    """Columns to be put beside a record's, from which the others here are made."""
    value = sf.expr("try_parse_json(cast(value AS string))")
    return [sf.when(_is_text("value"), value).alias(_PARSED["value"])]


def changes() -> list[Column]:
    """`CHANGE` and `BINLOG_CHANGE`, from what `parsed` gives."""
    found = sf.col(_PARSED["value"])
    # A change has an operation; other JSON may have fields of the same names.
    is_change = sf.try_variant_get(found, "$.op", "string").isNotNull()
    gtid = sf.try_variant_get(found, "$.source.gtid", "string")
    return [
        sf.when(is_change, _change(found)).alias(CHANGE),
        sf.when(is_change & (gtid.isNotNull() | number_of_commit().isNotNull()), _change(found)).alias(
            BINLOG_CHANGE
        ),
    ]


def _change(found: Column) -> Column:
    def part(path: str) -> Column:
        return sf.try_variant_get(found, f"$.{path}", _TYPES[path]).alias(path.rpartition(".")[2])

    return sf.struct(
        part("op"),
        sf.struct(*[part(path) for path in _TYPES if path.startswith("source.")]).alias("source"),
        sf.struct(part("transaction.total_order")).alias("transaction"),
    )


def text_of(what: str) -> Column:
    """The text of a key or value; null when that has a schema, or is not text."""
    return sf.when(_is_kept(what), sf.expr(f"cast({what} AS string)"))


def text_failure(what: str, otherwise: Column) -> Column:
    """Why a key or value can be kept in no way.

    Args:
        otherwise: the reason where it has a schema.
    """
    is_lost = sf.col(what).isNotNull() & sf.col(f"{what}_id").isNull() & ~_is_kept(what)
    without_id = sf.col(f"{what}_id").isNull()
    return (
        sf.when(is_lost, sf.lit(f"{what}: {_REASONS[what]}"))
        .when(without_id, sf.lit(None).cast("string"))
        .otherwise(otherwise)
    )


def _is_kept(what: str) -> Column:
    if what == "key":
        return _is_text("key")
    return sf.col(_PARSED["value"]).isNotNull()


def _is_text(what: str) -> Column:
    """Whether it has no schema and is UTF-8; a magic byte 0 that no schema id follows is not text."""
    return sf.expr(
        f"{what}_id IS NULL AND {what} IS NOT NULL AND substring({what}, 1, 1) <> X'00'"
        f" AND is_valid_utf8(cast({what} AS string))"
    )
