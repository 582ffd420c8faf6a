"""PostgreSQL's types and rows, as the table plan asks for them (`cdc.encoding.row_format`)."""

from collections.abc import Sequence
from typing import Any, Final

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.encoding.plan_code import ColumnCode, RowLayout
from tidings_capture.cdc.encoding.snippets import Shape, Snippet
from tidings_capture.cdc.row_change import RowChange
from tidings_capture.cdc.tables import Column, Table
from tidings_capture.cdc.types.conversion import Conversion, ConversionError
from tidings_capture.postgres.encoding import fast_avro, fast_json, json_shapes
from tidings_capture.postgres.encoding.row_code import NO_FUNCTIONS, compile_row_functions
from tidings_capture.postgres.encoding.row_reader import TupleReader
from tidings_capture.postgres.types.defaults import default_for
from tidings_capture.postgres.types.selection import conversion_for
from tidings_capture.postgres.types.source_types import source_type_parameters
from tidings_capture.postgres.wire.copy_format import parse_copy_line
from tidings_capture.postgres.wire.pgoutput import Delete, Insert, Update, decode_message
from tidings_envelope.avro.codec import AvroCodec
from tidings_envelope.codec import Codec
from tidings_envelope.json_codec import DecimalFormat, JsonCodec
from tidings_envelope.schema import ConnectSchema

_INSERT, _NEW = b"IN"
_OPERATIONS: Final = {ord("I"): "c", ord("U"): "u", ord("D"): "d"}
_NEW_TUPLE: Final = 5
"""Where an Update without an old tuple says so."""


class PostgresTypes:
    """See `TypeMap`."""

    def conversion(self, column: Column, options: ConversionOptions) -> Conversion | None:
        return conversion_for(column, options)

    def default(self, column: Column, conversion: Conversion, options: ConversionOptions) -> Any:
        return default_for(column, conversion, options)

    def source_type(self, table: Table, column: Column, options: ConversionOptions) -> dict[str, str]:
        return source_type_parameters(table, column, options)

    def direct_ways(
        self, conversion: Conversion, schema: ConnectSchema, codec: Codec, name: str
    ) -> tuple[Snippet | None, Shape | None]:
        if isinstance(codec, AvroCodec):
            return fast_avro.snippet(conversion, schema, codec, name), None
        if isinstance(codec, JsonCodec) and codec.decimal_format is DecimalFormat.BASE64:
            return fast_json.snippet(conversion, name), json_shapes.shape(conversion)
        return None, None


class PostgresRows:
    """See `RowFormat`: changes are pgoutput's messages, a snapshot's rows are lines of COPY's text format."""

    insert: int = _INSERT

    def reader(self, columns: Sequence[ColumnCode], layout: RowLayout, *, checked_only: bool) -> TupleReader:
        functions = NO_FUNCTIONS if checked_only else compile_row_functions(columns, layout)
        return TupleReader(columns, layout, functions)

    def decode(self, data: bytes, start: int) -> RowChange:
        message = decode_message(data[start:])
        match message:
            case Insert():
                return RowChange("c", message.new)
            case Update():
                return RowChange("u", message.new, message.old, message.old_kind)
            case Delete():
                return RowChange("d", None, message.old, message.old_kind)
            case _:
                raise ConversionError(f"a {type(message).__name__} message is not a change of a row")

    def operation(self, data: bytes, start: int) -> str | None:
        operation = _OPERATIONS.get(data[start])
        return None if operation == "u" and data[start + _NEW_TUPLE] != _NEW else operation

    def cells(self, line: bytes) -> Cells:
        return parse_copy_line(line)


TYPES: Final = PostgresTypes()
ROWS: Final = PostgresRows()
