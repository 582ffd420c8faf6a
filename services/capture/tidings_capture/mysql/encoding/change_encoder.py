"""From an event of rows straight to encoded records: what `TablePlan` and the converters would write. Pure."""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final

from tidings_capture.mysql.binlog.cells import Cells
from tidings_capture.mysql.binlog.row_code import Decode, RowsEvent
from tidings_capture.mysql.binlog.table_map import TableMap
from tidings_capture.mysql.encoding.records import Numbers, Place, TablePlan, source_of, source_schema
from tidings_capture.mysql.encoding.row_encoder import IRREGULAR, CellEncoder, EncodedRow, RowEncoder
from tidings_capture.mysql.encoding.text_encoder import TextEncoder
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Record
from tidings_envelope import semantic
from tidings_envelope.avro.codec import long_avro
from tidings_envelope.json_codec import JsonCodec

_ROW: Final = next(
    index for index, field in enumerate(source_schema("mariadb").fields) if field.name == "row"
)
"""The only field of ``source`` that differs between the rows of an event."""


class _ValueWriter:
    """Writes what stands around the rows of one table."""

    def __init__(self, plan: TablePlan, converter: Converter) -> None:
        self._plan = plan
        codec = converter.codec
        prefix, suffix = converter.frame(plan.topic, plan.value_schema)
        fragments = codec.struct_fragments(plan.value_schema)
        null_row = codec.null(plan.row_fields.schema)
        self.open, self.between = prefix + fragments[0], fragments[1]
        self.only_after = self.open + null_row + self.between
        self.behind_before = self.between + null_row
        source = codec.struct_fragments(plan.source_schema)
        self._source = (fragments[2] + source[0], *source[1:-1], source[-1] + fragments[3])
        self._source_encoders = [(f.name, codec.encoder(f.schema)) for f in plan.source_schema.fields]
        self._block = codec.struct_fragments(semantic.TRANSACTION_BLOCK)
        self._no_block = codec.null(semantic.TRANSACTION_BLOCK)
        self._behind_block = fragments[4:8]
        self._end = fragments[8] + suffix
        self._string = codec.encoder(semantic.STRING)
        self._optional_long = codec.encoder(semantic.OPTIONAL_INT64)
        self.number: Callable[[int], bytes] = b"%d".__mod__ if isinstance(codec, JsonCodec) else long_avro
        self._headers = list(plan.headers)

    def headers(self, place: Place) -> list[tuple[str, bytes]] | None:
        """Of all records of an event."""
        return [(one.key, str(one.value).encode()) for one in (*self._headers, *place.headers)] or None

    def around(self, op: str, place: Place, numbers: Numbers | None) -> tuple[bytes, bytes, bytes]:
        """What stands between a row and its number in the event, between that and the transaction's numbers, and at the
        end: the same for all rows of an event."""
        values = source_of(place, self._plan.prefix, self._plan.table, self._plan.flavour)
        pieces = [encode(values[name]) for name, encode in self._source_encoders]
        source = self._source
        before = b"".join(source[i] + pieces[i] for i in range(_ROW)) + source[_ROW]
        behind = b"".join(source[i] + pieces[i] for i in range(_ROW + 1, len(pieces))) + source[-1]
        if numbers is None:
            behind += self._no_block
        else:
            behind += self._block[0] + self._string(numbers.id) + self._block[1]
        now = time.time_ns()
        before_op, before_ms, before_us, before_ns = self._behind_block
        times = [self._optional_long(now // size) for size in (1_000_000, 1_000, 1)]
        end = (
            before_op + self._string(op) + before_ms + times[0] + before_us + times[1] + before_ns + times[2]
        )
        if numbers is not None:
            end = self._block[3] + end
        return before, behind, end + self._end

    def numbered(self, behind_number: bytes, numbers: Numbers) -> bytes:
        """What stands behind a row's number in the event, with its numbers in the transaction."""
        block = numbers.next(self._plan.table.qualified)
        return b"".join(
            (
                behind_number,
                self.number(block["total_order"]),
                self._block[2],
                self.number(block["data_collection_order"]),
            )
        )


class SnapshotEncoder:
    """Writes the rows of one table's snapshot (op ``r``); arguments and errors as of `ChangeEncoder`."""

    def __init__(self, plan: TablePlan, converters: tuple[Converter, Converter]) -> None:
        self.topic = plan.topic
        columns = plan.table.columns
        self._cells = CellEncoder(len(columns), plan.row_fields, plan.key_fields, plan.topic, converters)
        self._texts = TextEncoder(columns, plan.row_fields, plan.key_fields, plan.topic, converters)
        self._writer = _ValueWriter(plan, converters[1])
        self._tails: dict[str, tuple[bytes, list[tuple[str, bytes]] | None]] = {}

    def tick(self) -> None:
        """The connector's own time is read anew for the next row."""
        self._tails.clear()

    def key(self, cells: Cells) -> bytes | None:
        """The key that a row's record has; None: it has none, or `TablePlan` has to write it."""
        try:
            return self._cells.encode(cells)[1]
        except IRREGULAR:
            return None

    def record(self, cells: Cells, place: Place) -> Record | None:
        """A row's record; None: `TablePlan` has to write it. Of `place` only the mark may change between two ticks."""
        try:
            row, key = self._cells.encode(cells)
        except IRREGULAR:  # the plan says what is wrong
            return None
        tail, headers = self._tail(place)
        return key, self._writer.only_after + row + tail, headers

    def records(self, rows: Sequence[bytes], place: Place) -> list[Record]:
        """The records of rows as the server writes them; fewer than rows: `TablePlan` has to write the one behind them."""
        tail, headers = self._tail(place)
        records: list[Record] = []
        with contextlib.suppress(*IRREGULAR):
            self._texts.encode(rows, self._writer.only_after, tail, headers, records.append)
        return records

    def _tail(self, place: Place) -> tuple[bytes, list[tuple[str, bytes]] | None]:
        """What stands behind a row, and its headers."""
        tail = self._tails.get(place.snapshot)
        if tail is None:
            writer = self._writer
            before, behind, end = writer.around("r", place, None)
            tail = before + writer.number(place.row) + behind + end, writer.headers(place)
            self._tails[place.snapshot] = tail
        return tail


class ChangeEncoder:
    """Writes the changes of one version of a table.

    Args:
        converters: for keys and values; both have codecs.

    Raises:
        RegistryError: the registry refused a schema or could not be reached.
    """

    def __init__(
        self,
        table: TableMap,
        decoders: Sequence[Decode | None],
        plan: TablePlan,
        converters: tuple[Converter, Converter],
    ) -> None:
        self._plan = plan
        self._width = len(table.columns)
        self._rows = RowEncoder(
            table.columns, decoders, plan.row_fields, plan.key_fields, plan.topic, converters
        )
        self._writer = _ValueWriter(plan, converters[1])

    def records(
        self, event: RowsEvent, place: Place, numbers: Numbers | None
    ) -> tuple[list[Record], int] | None:
        """The records of an event's changes, numbered, and how many changes it has; None, and nothing numbered, when
        `TablePlan` has to write them."""
        full = (1 << self._width) - 1
        if (
            event.partial
            or event.width != self._width
            or any(int.from_bytes(image, "little") & full != full for image in event.images)
        ):
            return None
        try:
            rows = self._rows.read(event.data, event.start, len(event.data))
        except IRREGULAR:  # the plan says what is wrong, or writes what this does not
            return None
        if event.op != "u":
            return self._of_rows(event.op, rows, place, numbers), len(rows)
        if len(rows) % 2 or any(rows[at][1] != rows[at + 1][1] for at in range(0, len(rows), 2)):
            return None
        return self._updated(rows, place, numbers), len(rows) // 2

    def _of_rows(
        self, op: str, rows: list[EncodedRow], place: Place, numbers: Numbers | None
    ) -> list[Record]:
        writer = self._writer
        before_number, behind_number, end = writer.around(op, place, numbers)
        deletes, tombstones = op == "d", self._plan.tombstones
        opening = writer.open if deletes else writer.only_after
        if deletes:
            before_number = writer.behind_before + before_number
        number, headers = writer.number, writer.headers(place)
        join = b"".join
        records: list[Record] = []
        for place_in_event, (row, key) in enumerate(rows):
            block = behind_number if numbers is None else writer.numbered(behind_number, numbers)
            value = join((opening, row, before_number, number(place_in_event), block, end))
            records.append((key, value, headers))
            if deletes and tombstones:
                records.append((key, None, headers))
        return records

    def _updated(self, rows: list[EncodedRow], place: Place, numbers: Numbers | None) -> list[Record]:
        writer = self._writer
        before_number, behind_number, end = writer.around("u", place, numbers)
        opening, between, number, headers = writer.open, writer.between, writer.number, writer.headers(place)
        join = b"".join
        records: list[Record] = []
        skips = self._plan.skips_unchanged
        for at in range(0, len(rows), 2):
            row, key = rows[at + 1]
            if skips and row == rows[at][0]:
                continue
            block = behind_number if numbers is None else writer.numbered(behind_number, numbers)
            value = join((opening, rows[at][0], between, row, before_number, number(at // 2), block, end))
            records.append((key, value, headers))
        return records
