"""PostgreSQL's source block, and the end of every value: source, transaction, op and the connector's own time.

Most of it is the same for all events of a transaction, so it is rendered once per transaction (`EventContext.epoch`),
and the time once per reading of the clock; an event adds its LSN and its numbers.
"""

from abc import ABC, abstractmethod
from typing import Any, Final

from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.tables import Table
from tidings_envelope import semantic
from tidings_envelope.avro.codec import long_avro
from tidings_envelope.codec import Codec
from tidings_envelope.json_codec import JsonCodec, string_json

_SOURCE: Final = semantic.POSTGRES_SOURCE
_TRANSACTION: Final = semantic.TRANSACTION_BLOCK
_SEQUENCE_FIELD: Final = 6
_LSN_FIELD: Final = 12
_SOURCE_FIELDS: Final = {field.name: index for index, field in enumerate(_SOURCE.fields)}
OPERATIONS: Final = ("c", "u", "d", "r", "t")


def _last_commit(context: EventContext) -> str:
    """How ``sequence`` begins."""
    return "[null," if context.last_commit is None else f'["{context.last_commit}",'


def source_of(
    context: EventContext, options: ConversionOptions, schema: str = "", table: str = ""
) -> dict[str, Any]:
    """``source`` of an event at the context's position; without a table where it belongs to none."""
    return {
        "version": options.version,
        "connector": "postgresql",
        "name": options.topic_prefix,
        "ts_ms": context.ts_us // 1_000,
        # not set outside a snapshot: the schema has the default "false", unless converters keep nulls
        "snapshot": None if context.snapshot == "false" else context.snapshot,
        "db": options.database,
        "sequence": f'{_last_commit(context)}"{context.position}"]',
        "ts_us": context.ts_us,
        "ts_ns": context.ts_us * 1_000,
        "schema": schema,
        "table": table,
        "txId": context.tx_id,
        "lsn": context.position,
        "xmin": None,
        "origin": context.origin,
        "origin_lsn": context.origin_position,
    }


class PostgresSourceWriter(ABC):
    """Writes what follows ``after`` in the values of one table; see `cdc.encoding.source_block`."""

    def __init__(
        self,
        table: Table,
        options: ConversionOptions,
        codec: Codec,
        fragments: tuple[bytes, ...],
        suffix: bytes,
    ) -> None:
        """
        Args:
            table: the table.
            options: the connector's options.
            codec: the value converter's codec.
            fragments: the constant bytes around the envelope's fields.
            suffix: what the converter puts behind a value.
        """
        self._table = table
        self._name = table.qualified_name
        self._options = options
        self._numbered = options.provide_transaction_metadata
        _, _, before_source, before_transaction, before_op, before_ms, before_us, before_ns, end = fragments
        source = codec.struct_fragments(_SOURCE)
        self._source = [codec.encoder(field.schema) for field in _SOURCE.fields]
        self._source_fragments = (before_source + source[0], *source[1:-1], source[-1] + before_transaction)
        block = codec.struct_fragments(_TRANSACTION)
        self._open_block, self._block_1, self._block_2, close_block = block
        self._no_block = codec.null(_TRANSACTION)
        string = codec.encoder(semantic.STRING)
        self._string = string
        self._sequence = self._source[_SEQUENCE_FIELD]
        self._lsn = self._source[_LSN_FIELD]
        self._ops = {op: close_block + before_op + string(op) + before_ms for op in OPERATIONS}
        self._ops_outside = {op: before_op + string(op) + before_ms for op in OPERATIONS}
        optional_long = codec.encoder(semantic.OPTIONAL_INT64)
        self._optional_long = optional_long
        self._time_fragments = (before_us, before_ns, end + suffix)
        self._epoch = -1
        self._now_ns = -1
        self._time = b""
        self._endings: dict[str, bytes] = {}
        self._until_sequence = self._until_lsn = self._until_end = b""
        self._last_commit = ""
        self._tx_id = ""

    @abstractmethod
    def value(self, opening: bytes, row: bytes, context: EventContext, op: str) -> bytes:
        """Counts the event, and writes everything behind ``after``, with what stands before it: the whole value at once.

        Written out for each codec: it is run for every row, and a call more for each number costs what it saves.
        """

    def tail(self, context: EventContext, op: str) -> bytes:
        """Counts the event, and writes everything behind ``after``."""
        return self.value(b"", b"", context, op)

    def _render(self, context: EventContext) -> None:
        """Everything that stays the same until the context's epoch changes."""
        values = source_of(context, self._options, self._table.schema, self._table.name)
        self._last_commit, self._tx_id = _last_commit(context), f"{context.tx_id}:"
        pieces = [
            b"" if name in ("sequence", "lsn") else self._source[index](values[name])
            for name, index in _SOURCE_FIELDS.items()
        ]
        self._until_sequence = self._between(pieces, 0, _SEQUENCE_FIELD)
        self._until_lsn = self._between(pieces, _SEQUENCE_FIELD + 1, _LSN_FIELD)
        self._until_end = self._between(pieces, _LSN_FIELD + 1, len(pieces))
        self._epoch = context.epoch
        self._endings.clear()

    def _ending(self, op: str) -> bytes:
        """What stands behind the LSN of an event that is not numbered: the same until the epoch or the time changes."""
        ending = b"".join((self._until_end, self._no_block, self._ops_outside[op], self._time))
        self._endings[op] = ending
        return ending

    def incremental_tail(self, context: EventContext, op: str = "r") -> bytes:
        """Everything behind ``after`` of a row of an incremental snapshot: its source has a sequence, but no position,
        and the clock's time to the nanosecond."""
        now_ns = context.now_ns
        self._render_time(now_ns)
        values = source_of(context, self._options, self._table.schema, self._table.name)
        times = {"ts_ms": now_ns // 1_000_000, "ts_us": now_ns // 1_000, "ts_ns": now_ns}
        values |= {"lsn": None, "txId": None, **times}
        pieces = [self._source[index](values[name]) for name, index in _SOURCE_FIELDS.items()]
        source = self._between(pieces, 0, len(pieces))
        return b"".join((source, self._no_block, self._ops_outside[op], self._time))

    def _between(self, pieces: list[bytes], start: int, end: int) -> bytes:
        """The fields from `start` up to `end`, with the fragments before each and before `end`."""
        fragments = self._source_fragments
        return b"".join(fragments[i] + pieces[i] for i in range(start, end)) + fragments[end]

    def _render_time(self, now_ns: int) -> None:
        encode = self._optional_long
        before_us, before_ns, end = self._time_fragments
        now_us = now_ns // 1_000
        self._time = encode(now_us // 1_000) + before_us + encode(now_us) + before_ns + encode(now_ns) + end
        self._now_ns = now_ns
        self._endings.clear()


class JsonSourceWriter(PostgresSourceWriter):
    """The same for JSON, where the LSN's digits can be spliced into text and number alike."""

    def _render(self, context: EventContext) -> None:
        super()._render(context)
        sequence_start = string_json(f'{self._last_commit}"')[:-1]
        self._before_lsn = self._until_sequence + sequence_start
        self._between_lsns = string_json('"]')[1:] + self._until_lsn
        self._in_block = self._numbered and context.in_transaction
        self._before_id = self._until_end + self._open_block + string_json(self._tx_id)[:-1]
        self._behind_id = b'"' + self._block_1

    def value(self, opening: bytes, row: bytes, context: EventContext, op: str) -> bytes:
        """See `PostgresSourceWriter.value`."""
        if context.epoch != self._epoch:
            self._render(context)
        if context.now_ns != self._now_ns:
            self._render_time(context.now_ns)
        lsn = b"%d" % context.position
        if not self._in_block:
            return b"".join(
                (
                    opening,
                    row,
                    self._before_lsn,
                    lsn,
                    self._between_lsns,
                    lsn,
                    self._endings.get(op) or self._ending(op),
                )
            )
        total_order = context.total_order = context.total_order + 1
        counts = context.event_counts
        name = self._name
        order = counts[name] = counts.get(name, 0) + 1
        return b"".join(
            (
                opening,
                row,
                self._before_lsn,
                lsn,
                self._between_lsns,
                lsn,
                self._before_id,
                lsn,
                self._behind_id,
                b"%d" % total_order,
                self._block_2,
                b"%d" % order,
                self._ops[op],
                self._time,
            )
        )


class AvroSourceWriter(PostgresSourceWriter):
    """The same for Avro, where a text's length stands before it: it changes only with the LSN's number of digits."""

    def _render(self, context: EventContext) -> None:
        super()._render(context)
        self._in_block = self._numbered and context.in_transaction
        self._before_lsn = self._before_id = b""
        self._digits = 0
        self._between_lsns = b'"]' + self._until_lsn + self._lsn(0)[:-1]  # its branch

    def _render_digits(self, digits: int) -> None:
        """What stands before the LSN's digits in ``sequence`` and in the transaction's id."""
        zeros = "0" * digits
        self._before_lsn = (
            self._until_sequence + self._sequence(f'{self._last_commit}"{zeros}"]')[: -digits - 2]
        )
        self._before_id = self._until_end + self._open_block + self._string(f"{self._tx_id}{zeros}")[:-digits]
        self._digits = digits

    def value(self, opening: bytes, row: bytes, context: EventContext, op: str) -> bytes:
        """See `PostgresSourceWriter.value`."""
        if context.epoch != self._epoch:
            self._render(context)
        if context.now_ns != self._now_ns:
            self._render_time(context.now_ns)
        lsn = b"%d" % context.position
        if len(lsn) != self._digits:
            self._render_digits(len(lsn))
        if not self._in_block:
            return b"".join(
                (
                    opening,
                    row,
                    self._before_lsn,
                    lsn,
                    self._between_lsns,
                    long_avro(context.position),
                    self._endings.get(op) or self._ending(op),
                )
            )
        total_order = context.total_order = context.total_order + 1
        counts = context.event_counts
        name = self._name
        order = counts[name] = counts.get(name, 0) + 1
        return b"".join(
            (
                opening,
                row,
                self._before_lsn,
                lsn,
                self._between_lsns,
                long_avro(context.position),
                self._before_id,
                lsn,
                self._block_1,
                long_avro(total_order),
                self._block_2,
                long_avro(order),
                self._ops[op],
                self._time,
            )
        )


class PostgresSource:
    """See `SourceBlock`."""

    schema: Final = _SOURCE

    def writer(
        self,
        table: Table,
        options: ConversionOptions,
        codec: Codec,
        fragments: tuple[bytes, ...],
        suffix: bytes,
    ) -> PostgresSourceWriter:
        """See `SourceBlock.writer`."""
        writer = JsonSourceWriter if isinstance(codec, JsonCodec) else AvroSourceWriter
        return writer(table, options, codec, fragments, suffix)


SOURCE: Final = PostgresSource()
