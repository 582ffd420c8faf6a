"""Conversion plans: from a change of one relation version to the records Debezium would write for it.

A plan is compiled once per relation version and holds everything that does not change from row to row: schemas (which
are registered at that moment), the constant bytes around the cells, and a generated function for whole tuples. There
are two ways to the same bytes. The checked way takes a change apart into cells and encodes each through its Python value;
it defines the result. The fast way (`Plan.change`) reads inserts and plain updates straight from their bytes and falls
back to the checked way on anything unusual.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tidings_capture.cdc.cells import UNCHANGED, Cells
from tidings_capture.cdc.encoding.key_cells import NoWayBackError, cell_of
from tidings_capture.cdc.encoding.options import ConversionOptions, FailureHandling
from tidings_capture.cdc.encoding.plan_code import IRREGULAR, EncodedRow, RowLayout
from tidings_capture.cdc.encoding.plan_columns import ColumnEncoder, converted_column, mapped_column
from tidings_capture.cdc.encoding.plan_layout import column_codes, fields, key_columns
from tidings_capture.cdc.encoding.row_format import RowFormat
from tidings_capture.cdc.encoding.source_block import SourceBlock
from tidings_capture.cdc.encoding.type_map import TypeMap
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.naming import KeyField, adjusted
from tidings_capture.cdc.tables import Table
from tidings_capture.cdc.types.conversion import ConversionError, UnknownLabelError
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Header, Record
from tidings_connect.data.text import struct_text
from tidings_envelope import semantic
from tidings_envelope.json_codec import JsonCodec

NEW_KEY_HEADER: Final = "__debezium.newkey"
OLD_KEY_HEADER: Final = "__debezium.oldkey"


class Plan:
    """Converts the changes of one relation version. All methods return the records in the order to be produced."""

    def __init__(
        self,
        table: Table,
        options: ConversionOptions,
        key_converter: Converter,
        value_converter: Converter,
        topic: str,
        types: TypeMap,
        rows: RowFormat,
        source: SourceBlock,
        *,
        key_field: KeyField | None = None,
        checked_only: bool = False,
    ) -> None:
        self.topic = topic
        self.table = table
        self.renew: Callable[[int], Plan | None] | None = None
        """Gives a plan for the relation with this oid, with the enums' present labels; None if it has them."""
        columns = {
            column.name: converted_column(index, column, types, options)
            for index, column in enumerate(table.columns)
            if column.name not in table.excluded_columns or column.key_position is not None
        }
        self.omitted_columns = tuple(name for name, converted in columns.items() if converted is None)
        """Columns of types that Debezium leaves out; worth one warning."""
        row = [
            mapped_column(c, table, types, options)
            for c in columns.values()
            if c is not None and c.column.name not in table.excluded_columns
        ]
        key = key_columns(table, columns)
        value_codec, key_codec = value_converter.codec, key_converter.codec

        def name(proposed: str) -> str:
            return adjusted(proposed, options.schema_names)

        row_schema = semantic.struct(name(f"{topic}.Value"), fields(row, table)).as_optional()
        envelope = semantic.envelope(name(f"{topic}.Envelope"), row_schema, source.schema)
        prefix, suffix = value_converter.frame(topic, envelope)
        fragments = value_codec.struct_fragments(envelope)
        null_row = value_codec.null(row_schema)
        self._columns = [ColumnEncoder(c, value_codec, options.converting_failure) for c in row]
        self._row_fragments = value_codec.struct_fragments(row_schema)
        self._open = prefix + fragments[0]
        self._between = fragments[1]
        self._null_row = null_row
        self._only_after = self._open + null_row + self._between
        self._source = source.writer(table, options, value_codec, fragments, suffix)
        self._value = self._source.value

        self._key = [ColumnEncoder(c, key_codec, FailureHandling.FAIL) for c in key]
        self._key_columns = key
        self._key_fragments = None
        self._key_field = key_field
        if key or key_field is not None:
            key_fields = fields(key, table)
            if key_field is not None:
                key_fields.append((key_field.name, semantic.STRING))
            key_schema = semantic.struct(name(f"{topic}.Key"), key_fields)
            key_prefix, key_suffix = key_converter.frame(topic, key_schema)
            around = key_codec.struct_fragments(key_schema)
            if key_field is not None:
                last = around[-2] + key_codec.encoder(semantic.STRING)(key_field.value) + around[-1]
                around = (*around[:-2], last)
            opening = (key_prefix + around[0], *around[1:])
            self._key_fragments = (*opening[:-1], opening[-1] + key_suffix)

        self._headers = list(options.context_headers) or None
        self._tombstones = options.tombstones_on_delete
        self._skip_unchanged = options.skip_unchanged
        self._nullable = [c.index for c in row if c.schema.optional]
        self._skipped = options.skipped_operations
        codes = column_codes(table.columns, row, self._columns, key, self._key, value_codec, key_codec, types)
        layout = RowLayout(
            self._row_fragments,
            self._key_fragments,
            tuple(c.index for c in key),
            is_json=isinstance(value_codec, JsonCodec),
        )
        self._rows, self._insert = rows, rows.insert
        self._reader = rows.reader(codes, layout, checked_only=checked_only)

    def insert(self, cells: Cells, context: EventContext) -> list[Record]:
        """A new row (op ``c``)."""
        return self._with_after("c", cells, context, self._headers)

    def read(self, cells: Cells, context: EventContext) -> list[Record]:
        """A row of the snapshot (op ``r``)."""
        try:
            return self._with_after("r", cells, context, self._headers)
        except UnknownLabelError as error:
            error.admit()
            return self.read(cells, context)

    def read_lines(self, lines: Sequence[bytes], context: EventContext) -> list[Record]:
        """Rows of the snapshot as the database gives them; equal to `read` of each line's cells."""
        encoded: list[EncodedRow] = []
        while len(encoded) < len(lines):
            try:
                self._reader.lines(lines[len(encoded) :], encoded.append)
            except IRREGULAR:
                cells = self._rows.cells(lines[len(encoded)])
                try:
                    encoded.append(self._encoded(cells))
                except UnknownLabelError as error:
                    error.admit()
                    encoded.append(self._encoded(cells))
        opening, headers = self._only_after, self._headers
        tail = self._source.tail(context, "r")  # such rows are not numbered: all end alike
        return [(key, opening + row + tail, headers) for row, key in encoded]

    def read_incremental(self, cells: Cells, context: EventContext) -> list[Record]:
        """A row of an incremental snapshot (op ``r``)."""
        row, key = self._encoded(cells)
        return [(key, self._only_after + row + self._source.incremental_tail(context), self._headers)]

    def read_deleted(self, cells: Cells, context: EventContext) -> list[Record]:
        """The delete (op ``d``) and the tombstone of a row that an incremental snapshot found gone.

        Args:
            cells: the key's; everything else is None, as under replica identity DEFAULT.
        """
        row, key = self._encoded(cells)
        value = (
            self._open + row + self._between + self._null_row + self._source.incremental_tail(context, "d")
        )
        records: list[Record] = [(key, value, self._headers)]
        if self._tombstones:
            records.append((key, None, self._headers))
        return records

    def key_cells(self, key: Mapping[str, Any]) -> Cells | None:
        """A row of which only the key is known, from a key as it stands on the topic.

        Returns:
            the cells; None for a key of another table that shares the topic.

        Raises:
            NoWayBackError: a value has no way back, or the key has other fields than the table's.
        """
        own = self._key_field
        if own is not None and key.get(own.name) != own.value:
            return None
        if len(key) != len(self._key) + (own is not None):
            raise NoWayBackError(f"a key of {self.topic} has other fields than {self.table.qualified_name}'s")
        cells: Cells = [None] * len(self.table.columns)
        for column, encoder in zip(self._key_columns, self._key, strict=True):
            if column.field not in key:
                raise NoWayBackError(f"a key of {self.topic} has no field {column.field}")
            value = key[column.field]
            if value is not None:
                cells[column.index] = cell_of(value, column.schema, encoder.value)
        return cells

    def update(
        self, old_kind: str | None, old: Cells | None, new: Cells, context: EventContext
    ) -> list[Record]:
        """A changed row (op ``u``); where the old row shows another key, a delete, a tombstone and a create."""
        if old is None or old_kind is None:
            return self._with_after("u", new, context, self._headers)
        old_row, old_key = self._encoded(old)
        new = self._restored(old, new)
        new_row, new_key = self._encoded(new)
        if self._skip_unchanged and old_row == new_row and self._same_nulls(old, new):
            return []
        if old_key != new_key:
            context_headers = self._headers or ()
            return [
                *self._deleted(old, context, [(NEW_KEY_HEADER, self._key_header(new)), *context_headers]),
                *self._with_after(
                    "c", new, context, [(OLD_KEY_HEADER, self._key_header(old)), *context_headers]
                ),
            ]
        return self._updated(old_row, new_row, new_key, context)

    def delete(self, old_kind: str, old: Cells, context: EventContext) -> list[Record]:  # noqa: ARG002
        """A deleted row (op ``d``) and its tombstone. Under replica identity DEFAULT only the key is known, and the
        other columns are null, their default, or a zero."""
        return self._deleted(old, context, self._headers)

    def truncate(self, context: EventContext) -> list[Record]:
        """The table was truncated (op ``t``)."""
        return [(None, self._only_after + self._null_row + self._source.tail(context, "t"), self._headers)]

    def change(self, data: bytes, start: int, context: EventContext) -> list[Record]:
        """The fast way: converts an inserted, updated or deleted row straight from its bytes.

        Equal to `RowFormat.decode` and then `insert`, `update` or `delete`, with the same errors.

        Args:
            data: a buffer that ends with the change.
            start: where it begins.

        Raises:
            DecodeError: the bytes are not one such change.
            ConversionError: a cell is not of its column's type.
        """
        try:
            row, key = self._reader.read(data, start)
        except IRREGULAR:  # the checked way says what is wrong, or does what the fast way could not
            return self._checked(data, start, context)
        op = "c" if data[start] == self._insert else "u"
        return [(key, self._value(self._only_after, row, context, op), self._headers)]

    def _checked(self, data: bytes, start: int, context: EventContext) -> list[Record]:
        try:
            return self._converted(data, start, context)
        except UnknownLabelError as error:
            # Added to the enum later, of which the stream says nothing. Nothing has been counted yet.
            renewed = self.renew(self.table.oid) if self.renew is not None else None
            if renewed is None:
                error.admit()
            return (renewed or self).change(data, start, context)

    def _converted(self, data: bytes, start: int, context: EventContext) -> list[Record]:
        change = self._rows.decode(data, start)
        new, old, kind = change.new, change.old, change.old_kind
        if change.op == "d":
            assert old is not None
            return self.delete(kind or "", old, context)
        assert new is not None
        return self.insert(new, context) if change.op == "c" else self.update(kind, old, new, context)

    def _with_after(
        self, op: str, cells: Cells, context: EventContext, headers: list[Header] | None
    ) -> list[Record]:
        row, key = self._encoded(cells)
        return [(key, self._value(self._only_after, row, context, op), headers)]

    def _updated(
        self, old_row: bytes, new_row: bytes, key: bytes | None, context: EventContext
    ) -> list[Record]:
        value = self._open + old_row + self._between + new_row + self._source.tail(context, "u")
        return [(key, value, self._headers)]

    def _deleted(self, old: Cells, context: EventContext, headers: list[Header] | None) -> list[Record]:
        row, key = self._encoded(old)
        value = self._open + row + self._between + self._null_row + self._source.tail(context, "d")
        records: list[Record] = [(key, value, headers)]
        if self._tombstones:
            records.append((key, None, headers))
        return records

    def _restored(self, old: Cells, new: Cells) -> Cells:
        """The new row with the old row's values where TOASTed ones are unchanged."""
        self._check_width(new)
        return [
            before if after is UNCHANGED and before is not None else after
            for before, after in zip(old, new, strict=True)
        ]

    def _same_nulls(self, old: Cells, new: Cells) -> bool:
        """Whether the same values are null: converters may write a null as the default, which it is not."""
        return all((old[index] is None) is (new[index] is None) for index in self._nullable)

    def _encoded(self, cells: Cells) -> tuple[bytes, bytes | None]:
        """Row and key."""
        try:
            return self._reader.encode(cells)
        except IRREGULAR:
            self._check_width(cells)
            return self._row(cells), self._key_bytes(cells)

    def _row(self, cells: Cells) -> bytes:
        return _spliced(self._row_fragments, [column.cell(cells[column.index]) for column in self._columns])

    def _key_bytes(self, cells: Cells) -> bytes | None:
        if self._key_fragments is None:
            return None
        return _spliced(self._key_fragments, [column.cell(cells[column.index]) for column in self._key])

    def _key_header(self, cells: Cells) -> bytes:
        fields = [(c.field, c.schema) for c in self._key_columns]
        values = [column.value(cells[column.index]) for column in self._key]
        if self._key_field is not None:
            fields.append((self._key_field.name, semantic.STRING))
            values.append(self._key_field.value)
        return struct_text(fields, values)

    def _check_width(self, cells: Cells) -> None:
        if len(cells) != len(self.table.columns):
            raise ConversionError(
                f"a row of {self.table.qualified_name} has {len(cells)} columns instead of {len(self.table.columns)}",
                hint="the relation has changed without a Relation message",
            )


class SkippingPlan(Plan):
    """A plan that leaves operations out. A changed key is not an update but a delete and a create, each of which is left
    out where its own operation is, as Debezium does."""

    def change(self, data: bytes, start: int, context: EventContext) -> list[Record]:
        """See `Plan.change`."""
        if self._rows.operation(data, start) in self._skipped:
            return []
        return super().change(data, start, context)

    def _with_after(
        self, op: str, cells: Cells, context: EventContext, headers: list[Header] | None
    ) -> list[Record]:
        return [] if op in self._skipped else super()._with_after(op, cells, context, headers)

    def _updated(
        self, old_row: bytes, new_row: bytes, key: bytes | None, context: EventContext
    ) -> list[Record]:
        return [] if "u" in self._skipped else super()._updated(old_row, new_row, key, context)

    def _deleted(self, old: Cells, context: EventContext, headers: list[Header] | None) -> list[Record]:
        return [] if "d" in self._skipped else super()._deleted(old, context, headers)


def _spliced(fragments: tuple[bytes, ...], fields: list[bytes]) -> bytes:
    pieces = [piece for pair in zip(fragments, fields, strict=False) for piece in pair]
    return b"".join([*pieces, fragments[-1]])


def compile_plan(
    table: Table,
    options: ConversionOptions,
    key_converter: Converter,
    value_converter: Converter,
    topic: str,
    types: TypeMap,
    rows: RowFormat,
    source: SourceBlock,
    *,
    key_field: KeyField | None = None,
    checked_only: bool = False,
) -> Plan:
    """Compiles the plan for one relation version; registers its schemas where the converter has a registry.

    Args:
        table: the relation version.
        options: the connector's options.
        key_converter: for keys.
        value_converter: for values.
        topic: the table's topic, whose name its schemas carry.
        types: what the database's types become.
        rows: how the database sends rows.
        source: what the database says of an event's place.
        key_field: a field that keys have besides the table's columns.
        checked_only: goes the checked way always; for tests.

    Raises:
        ConversionError: a combination of type and options that is not supported, by name.
        SchemaError: a name that the format does not allow.
        RegistryError: the registry refused a schema or could not be reached.
    """
    made = SkippingPlan if options.skipped_operations.intersection("cud") else Plan
    return made(
        table,
        options,
        key_converter,
        value_converter,
        topic,
        types,
        rows,
        source,
        key_field=key_field,
        checked_only=checked_only,
    )
