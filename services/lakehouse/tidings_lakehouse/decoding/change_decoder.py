"""From records of one technical topic to rows of its log. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.choices import TopicChoices
from tidings_lakehouse.decoding.binlog import Limits, Place, is_of_binlog, place_of
from tidings_lakehouse.decoding.columns import chosen_type, is_placeholder, misfit, shaped_row
from tidings_lakehouse.decoding.infinite import mark_of, marks
from tidings_lakehouse.decoding.new_columns import NewColumns, new_columns
from tidings_lakehouse.decoding.poison import Poison, is_among, why
from tidings_lakehouse.decoding.schemas import DecodingPlan
from tidings_lakehouse.decoding.text_records import (
    BINLOG_CHANGE,
    BINLOG_ENVELOPE,
    CHANGE,
    KEY_TEXT,
    TEXT_FIELDS,
    VALUE_TEXT,
    changes,
    parsed,
    text_failure,
    text_of,
)
from tidings_lakehouse.formats.avro_nodes import Node
from tidings_lakehouse.formats.records import ReaderGroup, failure
from tidings_lakehouse.tables.naming import Naming, Rename
from tidings_lakehouse.tables.tables import evolve

SOURCE_FIELDS = ("ts_ms", "ts_us", "snapshot", "sequence", "txId", "lsn", "gtid")
HEADERS = st.ArrayType(
    st.StructType([st.StructField("key", st.StringType()), st.StructField("value", st.BinaryType())])
)
_LEADING = (
    st.StructField("topic_id", st.StringType()),
    st.StructField("partition", st.IntegerType()),
    st.StructField("offset", st.LongType()),
    st.StructField("timestamp", st.TimestampType()),
    st.StructField("op", st.StringType()),
)
_TRAILING = (
    st.StructField("snapshot", st.BooleanType()),
    st.StructField("tx_id", st.LongType()),
    st.StructField("total_order", st.LongType()),
    st.StructField("last_commit_lsn", st.LongType()),
    st.StructField("lsn", st.LongType()),
    st.StructField("changed_at", st.TimestampType()),
    st.StructField("schema_id", st.LongType()),
    st.StructField("headers", HEADERS),
    st.StructField("incremental", st.BooleanType()),
)


def check_envelope(node: Node) -> str | None:
    """Why a schema is not that of a change event, or None."""
    source = node.field("source")
    has_position = source is not None and (source.field("lsn") is not None or is_of_binlog(node))
    if node.kind != "record" or node.field("op") is None or not has_position:
        return "is not that of a change event of PostgreSQL, MariaDB or MySQL"
    row = node.field("after")
    if row is None or row.kind != "record":
        return "is not that of a change event with rows"
    return None


def check_key(node: Node) -> str | None:
    """Why a schema is not that of a table's key, or None."""
    return None if node.kind == "record" and node.fields else "is not that of a table's key"


def naming_of(values: DecodingPlan, renames: Sequence[Rename]) -> Naming:
    """What the fields of a topic's rows are called now."""
    return Naming(tuple(renames), values.newest_row)


def log_schema(
    values: DecodingPlan, keys: DecodingPlan, naming: Naming, choices: TopicChoices
) -> st.StructType:
    """What the log needs to hold for these schemas; several readers of one topic share the columns that agree."""
    fields = list(_LEADING)
    for name, plan, part in (("key", keys, None), ("before", values, "before"), ("after", values, "after")):
        of_part = TopicChoices() if part is None else choices
        struct = [
            evolve(st.StructType([]), _struct_of(row, of_part, naming))[0]
            for group in plan.groups
            if (row := group.reader if part is None else group.reader.field(part)) is not None
        ]
        fields += [st.StructField(name, one) for one in struct]
    fields += TEXT_FIELDS if choices.is_text else ()
    return st.StructType(fields + list(_TRAILING))


def _struct_of(row: Node, choices: TopicChoices, naming: Naming) -> st.StructType:
    own = [st.StructField(name, chosen_type(node, choices.of(name)).sql) for name, node in row.fields]
    marked = marks(row, choices.with_marks(name for name, _ in row.fields))
    said = [st.StructField(mark_of(one.name), st.StringType()) for name in marked for one in naming.of(name)]
    return st.StructType(naming.renamed(st.StructType(own)).fields + said)


class ChangeDecoder:
    """Decodes the records of one topic by the schemas it was made for; made once, used for every batch."""

    def __init__(
        self,
        topic_id: str,
        values: DecodingPlan,
        keys: DecodingPlan,
        log: st.StructType,
        naming: Naming,
        choices: TopicChoices,
        limits: Limits,
    ) -> None:
        self.made_for = (topic_id, values, keys, log, naming, choices, limits)
        is_text = choices.is_text
        self._parsed = parsed() if is_text else []
        value_groups = [(group, f"v{number}") for number, group in enumerate(values.groups)]
        key_groups = [(group, f"k{number}") for number, group in enumerate(keys.groups)]
        self._decoded = [
            *[group.decode("value", "value_id").alias(name) for group, name in value_groups],
            *[group.decode("key", "key_id").alias(name) for group, name in key_groups],
            *(changes() if is_text else []),
        ]
        places = [
            place_of(group.reader, name, limits) if is_of_binlog(group.reader) else _place(name)
            for group, name in value_groups
        ]
        of_value = failure("value", "value_id", value_groups, values.refused)
        of_key = failure("key", "key_id", key_groups, keys.refused)
        if is_text:
            places += [_place(CHANGE), place_of(BINLOG_ENVELOPE, BINLOG_CHANGE, limits)]
            of_value, of_key = text_failure("value", of_value), text_failure("key", of_key)
        misfits = [_misfit(group, name, choices) for group, name in value_groups]
        reason = sf.coalesce(of_value, of_key, *[place.reason for place in places], *misfits)
        lsn = _first([place.lsn for place in places])
        columns = _log_columns(topic_id, values, value_groups, key_groups, log, naming, places, choices)
        self._columns = [
            *[
                columns.get(field.name, sf.col(field.name)).cast(field.dataType).alias(field.name)
                for field in log.fields
            ],
            _unavailable(value_groups, naming, lsn).alias("unavailable"),
            _first([place.domain for place in places]).cast("bigint").alias("domain"),
            reason.alias("reason"),
            sf.col("key").alias("record_key"),
            sf.col("value").alias("record_value"),
        ]
        failed = sf.col("reason").isNotNull()
        self._last = [
            *[sf.col(field.name) for field in log.fields],
            sf.col("unavailable"),
            sf.col("domain"),
            sf.col("reason"),
            sf.when(failed, sf.col("record_key")).alias("raw_key"),
            sf.when(failed, sf.col("record_value")).alias("raw_value"),
        ]

    @cached_property
    def new_columns(self) -> NewColumns:
        """See `new_columns`; every batch asks for it."""
        _, values, _, log, _, choices, _ = self.made_for
        return new_columns(values, log, choices)

    def decode(self, records: DataFrame, poison: Sequence[Poison] = ()) -> DataFrame:
        """Rows of the log, and of what could not be decoded; `poison` is not tried.

        Ends in the log's columns, then `unavailable` (names of fields that stand for a value not logged), `domain` (MariaDB's
        replication domain), `reason` (why it could not be decoded, else null) with `raw_key` and `raw_value`.
        """
        if poison:
            good = self.decode(records.where(~is_among(poison)))
            return good.unionAll(self._put_aside(records.where(is_among(poison)), poison))
        if self._parsed:
            records = records.select("*", *self._parsed)
        return records.select("*", *self._decoded).select(*self._columns).select(*self._last)

    def _put_aside(self, records: DataFrame, poison: Sequence[Poison]) -> DataFrame:
        topic_id, _, _, log, *_ = self.made_for
        kept = {"topic_id": sf.lit(topic_id)} | {
            name: sf.col(name) for name in ("partition", "offset", "timestamp", "headers")
        }
        return records.select(
            *[kept.get(f.name, sf.lit(None)).cast(f.dataType).alias(f.name) for f in log.fields],
            sf.array().cast("array<string>").alias("unavailable"),
            sf.lit(None).cast("bigint").alias("domain"),
            why(poison).alias("reason"),
            sf.col("key").alias("raw_key"),
            sf.col("value").alias("raw_value"),
        )


def _log_columns(
    topic_id: str,
    values: DecodingPlan,
    value_groups: Sequence[tuple[ReaderGroup, str]],
    key_groups: Sequence[tuple[ReaderGroup, str]],
    log: st.StructType,
    naming: Naming,
    places: Sequence[Place],
    choices: TopicChoices,
) -> dict[str, Column]:
    is_text = choices.is_text
    fits = {field.name: field.dataType for field in log.fields}
    lsn = _first([place.lsn for place in places])

    names = [*[name for _, name in value_groups], *([CHANGE] if is_text else [])]

    def value(path: str) -> Column:
        return _first([sf.col(f"{name}.{path}") for name in names])

    def text(what: str) -> Column:
        return text_of(what) if is_text else sf.lit(None)

    return {
        "topic_id": sf.lit(topic_id),
        "op": value("op"),
        "key": _struct(key_groups, None, fits.get("key"), naming, lsn, TopicChoices()),
        "before": _struct(value_groups, "before", fits.get("before"), naming, lsn, choices),
        "after": _struct(value_groups, "after", fits.get("after"), naming, lsn, choices),
        KEY_TEXT: text("key"),
        VALUE_TEXT: text("value"),
        "snapshot": sf.when(
            value("op").isNotNull(), sf.coalesce(value("source.snapshot") != "false", sf.lit(False))
        ),
        "incremental": value("source.snapshot") == "incremental",
        "tx_id": _first([place.tx_id for place in places]),
        "total_order": value("transaction.total_order")
        if _have(values, "transaction", is_text=is_text)
        else sf.lit(None),
        "last_commit_lsn": _first([place.last_commit_lsn for place in places]),
        "lsn": lsn,
        "changed_at": sf.timestamp_micros(
            sf.coalesce(value("source.ts_us"), value("source.ts_ms") * 1000)
            if _have(values, "source", "ts_us", is_text=is_text)
            else value("source.ts_ms") * 1000
        ),
        "schema_id": sf.when(sf.col("value_id") >= 0, sf.col("value_id")),
    }


def _place(decoded: str) -> Place:
    """Where a change of PostgreSQL stands."""
    source, none = f"{decoded}.source", sf.lit(None)

    def of_sequence(number: int) -> Column:
        return sf.get_json_object(sf.col(f"{source}.sequence"), f"$[{number}]").try_cast("bigint")

    return Place(
        sf.col(f"{source}.txId"),
        of_sequence(0),
        sf.coalesce(sf.col(f"{source}.lsn"), of_sequence(1)),
        none.cast("bigint"),
        none.cast("string"),
    )


def _have(plan: DecodingPlan, *path: str, is_text: bool) -> bool:
    for group in plan.groups:
        node: Node | None = group.reader
        for name in path:
            node = None if node is None else node.field(name)
        if node is None:
            return False
    return bool(plan.groups) or is_text


def _first(columns: Sequence[Column]) -> Column:
    if not columns:
        return sf.lit(None)
    return columns[0] if len(columns) == 1 else sf.coalesce(*columns)


def _struct(
    groups: Sequence[tuple[ReaderGroup, str]],
    part: str | None,
    target: st.DataType | None,
    naming: Naming,
    lsn: Column,
    choices: TopicChoices,
) -> Column:
    """A row or key of whichever group decoded it, in the log's shape."""
    if not isinstance(target, st.StructType):
        return sf.lit(None)
    shaped = []
    for group, name in groups:
        node = group.reader if part is None else group.reader.field(part)
        if node is None:
            continue
        column = sf.col(name if part is None else f"{name}.{part}")
        row = shaped_row(column, node, target, naming, lsn, choices)
        if part is None:  # of a key that could not be decoded there is a struct of nulls
            row = sf.when(~group.is_undecoded(name), row)
        shaped.append(row)
    return _first(shaped)


def _misfit(group: ReaderGroup, decoded: str, choices: TopicChoices) -> Column:
    """Why a row cannot have the types that are chosen, of whose fields one does not fit; null when all do."""
    row = group.reader.field("after")
    reason = sf.lit(None).cast("string")
    for name, node in () if row is None else row.fields:
        test = misfit(node, choices.of(name), sf.col(f"{decoded}.after")[name])
        if test is not None:
            why = f"after.{name}: the number does not fit decimal(38,{choices.types.numeric_scale}) exactly, TIDINGS_LAKEHOUSE_TYPES"
            reason = sf.coalesce(reason, sf.when(test, sf.lit(why)))
    return reason


def _unavailable(groups: Sequence[tuple[ReaderGroup, str]], naming: Naming, lsn: Column) -> Column:
    """Present names of the fields of `after` that hold the placeholder."""
    names: list[Column] = []
    for group, decoded in groups:
        # MariaDB and MySQL log whole rows: a text that reads like the placeholder is a text.
        row = None if is_of_binlog(group.reader) else group.reader.field("after")
        for name, node in () if row is None else row.fields:
            test = is_placeholder(node, sf.col(f"{decoded}.after")[name])
            if test is None:
                continue
            for called in naming.of(name):
                holds = called.holds(lsn)
                names.append(sf.when(test if holds is None else test & holds, sf.lit(called.name)))
    if not names:
        return sf.array().cast("array<string>")
    return sf.array_compact(sf.array(*names))
