"""Kafka records as both streams see them: their schemas' ids, what cannot be decoded named. No I/O.

Wire format: magic byte 0, a big-endian 4-byte schema id, Avro's binary encoding (Confluent, "Wire format").
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import from_avro

from tidings_lakehouse.formats import json_records
from tidings_lakehouse.formats.avro_nodes import DECODED_FIELD, Node, reader_schema

JSON_REASON = (
    "JSON without a schema, which has no types: give the connector an Avro converter, or a JsonConverter with "
    "schemas.enable=true, or the job its schema (TIDINGS_LAKEHOUSE_SCHEMAS), or have it kept as text (TIDINGS_LAKEHOUSE_TEXT)"
)
FRAMING_REASON = "neither in the wire format, with magic byte 0 and schema id, nor JSON with its schema"

_ROWS = ("before", "after")
ANY = "*"
"""Stands for any text in the name of a topic for which a schema is given."""


def with_schema_ids(records: DataFrame, given: Mapping[str, int] | None = None) -> DataFrame:
    """Kafka's columns and the schema ids of key and value; an id is null where there is no schema, and below zero where
    the record brings it (`json_records`), or one is given.

    Args:
        given: ids of the schemas of JSON that brings none, by subject, ``<topic>-key`` or ``<topic>-value``; see `ANY`.
    """
    return records.select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
        _schema_id("key", given or {}).alias("key_id"),
        _schema_id("value", given or {}).alias("value_id"),
    )


def _schema_id(name: str, given: Mapping[str, int]) -> Column:
    # bigint: an id above 2^31 is garbage, and must not end the batch as an overflow.
    in_wire_format = sf.expr(f"length({name}) >= 5 AND substring({name}, 1, 1) = X'00'")
    id_ = sf.expr(f"cast(conv(hex(substring({name}, 2, 4)), 16, 10) AS bigint)")
    brought = json_records.schema_id(name)
    suffix = f"-{name}"
    # A topic's own file counts before those of several topics.
    for subject, given_id in sorted(given.items(), key=lambda item: (ANY in item[0], item[0])):
        if subject.endswith(suffix):
            is_of_topic = _is_of(subject.removesuffix(suffix))
            brought = brought.when(is_of_topic & json_records.is_json(name), sf.lit(given_id))
    return sf.when(in_wire_format, id_).otherwise(brought)


def _is_of(topics: str) -> Column:
    if ANY not in topics:
        return sf.col("topic") == topics
    return sf.col("topic").rlike(f"^{'.*'.join(map(re.escape, topics.split(ANY)))}$")


@dataclass(frozen=True)
class ReaderGroup:
    """Schema ids that one reader's schema can read."""

    reader: Node
    writers: Mapping[int, str]
    """Writer's schema as JSON text, by id."""
    keep: Mapping[str, Sequence[str]] | None = None
    """See `reader_schema`."""

    def matches(self, id_column: str) -> Column:
        """Whether a record was written with one of the ids."""
        return sf.col(id_column).isin(*self.writers)

    def decode(self, column: str, id_column: str) -> Column:
        """The decoded record; its `DECODED_FIELD` is null where the bytes do not fit the schema."""
        options = {
            "avroSchema": json.dumps(reader_schema(self.reader, keep=self.keep)),
            "mode": "PERMISSIVE",
        }
        body = sf.expr(f"substring({column}, 6)")
        decoded: Column | None = None
        for schema_id, writer in self.writers.items():
            branch = sf.col(id_column) == schema_id
            value = from_avro(body, writer, options)
            decoded = sf.when(branch, value) if decoded is None else decoded.when(branch, value)
        if decoded is None:
            raise ValueError("a reader without a writer")
        return decoded

    def is_undecoded(self, decoded: str) -> Column:
        """Whether the bytes of a record that `matches` do not fit its schema."""
        return sf.col(f"{decoded}.{DECODED_FIELD}").isNull()

    def unfit(self, id_column: str) -> Column:
        """What is said of such a record."""
        return sf.concat(sf.lit("the bytes do not fit schema "), sf.col(id_column).cast("string"))


@dataclass(frozen=True)
class JsonReaderGroup(ReaderGroup):
    """Schema ids below zero, of records that bring their schema."""

    required: tuple[str, ...] = ()
    """Fields of the outermost record that no schema lets be null."""

    def decode(self, column: str, id_column: str) -> Column:
        """See `ReaderGroup`; `is_undecoded` says of which records there is nothing."""
        payload = json_records.decode(column, self.reader, self.keep or {}, self._closed(column))
        return sf.when(self.matches(id_column), payload)

    def _closed(self, column: str) -> dict[str, frozenset[str]]:
        """The rows of a key or value, whose fields are all to be kept, by name; the key itself has none."""
        rows = {"": self.reader} if column == "key" else {one: self.reader.field(one) for one in _ROWS}
        return {name: frozenset(dict(row.fields)) for name, row in rows.items() if row is not None}

    def is_undecoded(self, decoded: str) -> Column:
        """See `ReaderGroup`."""
        return json_records.is_undecoded(decoded, self.required)

    def unfit(self, id_column: str) -> Column:  # noqa: ARG002 - it is in the record, and no registry's
        """See `ReaderGroup`."""
        return sf.lit(json_records.UNFIT_REASON)


def failure(
    what: str, id_column: str, groups: Sequence[tuple[ReaderGroup, str]], refused: Mapping[int, str]
) -> Column:
    """Why a record's `what` ("key" or "value") cannot be decoded; null when it can or when there is none.

    `groups` name the column that holds what each group decoded; `refused` says why an id cannot be used.
    """
    no_id = sf.col(id_column).isNull()
    reason = (
        sf.when(sf.col(what).isNull(), sf.lit(None).cast("string"))
        .when(no_id & json_records.is_json(what), f"{what}: {JSON_REASON}")
        .when(no_id, f"{what}: {FRAMING_REASON}")
    )
    for schema_id, why in refused.items():
        reason = reason.when(sf.col(id_column) == schema_id, sf.lit(f"{what}: {why}"))
    for group, decoded in groups:
        undecoded = group.matches(id_column) & group.is_undecoded(decoded)
        reason = reason.when(undecoded, sf.concat(sf.lit(f"{what}: "), group.unfit(id_column)))
        broken = [
            test
            for name, node in (() if isinstance(group, JsonReaderGroup) else group.reader.fields)
            if name not in (group.keep or ())
            and (test := _is_broken(node, sf.col(decoded)[name])) is not None
        ]
        if broken:
            found = functools.reduce(Column.__or__, broken)
            reason = reason.when(group.matches(id_column) & found, sf.lit(f"{what}: a text is not UTF-8"))
    return reason


def _is_broken(node: Node, column: Column) -> Column | None:
    """Whether a value holds a text that is not UTF-8: Avro's readers let it pass, and those of tables refuse the file."""
    if node.kind == "string":
        return ~sf.is_valid_utf8(column)
    if node.items is not None:
        items = node.items
        if _is_broken(items, column) is None:
            return None

        def is_broken(one: Column) -> Column:
            return _or_false(_is_broken(items, one))

        return sf.exists(column if node.kind == "array" else sf.map_values(column), is_broken)
    tests = [test for name, inner in node.fields if (test := _is_broken(inner, column[name])) is not None]
    return functools.reduce(Column.__or__, tests) if tests else None


def _or_false(test: Column | None) -> Column:
    return sf.lit(False) if test is None else sf.coalesce(test, sf.lit(False))
