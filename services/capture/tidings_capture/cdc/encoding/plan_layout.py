"""What a plan makes of a table's columns: the fields of its schemas, its key, and the generated code for each column."""

from collections.abc import Mapping, Sequence

from tidings_capture.cdc.encoding.plan_code import ColumnCode
from tidings_capture.cdc.encoding.plan_columns import ColumnEncoder, ConvertedColumn
from tidings_capture.cdc.encoding.snippets import Shape, Snippet
from tidings_capture.cdc.encoding.type_map import TypeMap
from tidings_capture.cdc.tables import Column, Table
from tidings_capture.cdc.types.conversion import ConversionError
from tidings_envelope.avro.codec import AvroCodec
from tidings_envelope.codec import Codec
from tidings_envelope.json_codec import JsonCodec
from tidings_envelope.schema import ConnectSchema


def fields(columns: Sequence[ConvertedColumn], table: Table) -> list[tuple[str, ConnectSchema]]:
    """The schema's fields.

    Raises:
        ConversionError: two columns have the same name.
    """
    found = {c.field: c.schema for c in columns}
    if len(found) != len(columns):
        raise ConversionError(
            f"two columns of {table.qualified_name} have the same name after field.name.adjustment.mode",
            hint="choose avro_unicode, which keeps names apart, or leave one out with column.exclude.list",
        )
    return list(found.items())


def key_columns(table: Table, columns: Mapping[str, ConvertedColumn | None]) -> list[ConvertedColumn]:
    """The key's columns, in key order.

    Raises:
        ConversionError: one is of a type that is left out.
    """
    key = []
    for column in table.key_columns:
        converted = columns[column.name]
        if converted is None:
            raise ConversionError(
                f"key column {column.name!r} of {table.qualified_name} is of a type that cannot be converted",
                hint="set include.unknown.datatypes=true, or leave the table out",
            )
        key.append(converted)
    return key


def column_codes(
    columns: Sequence[Column],
    row: Sequence[ConvertedColumn],
    row_encoders: Sequence[ColumnEncoder],
    key: Sequence[ConvertedColumn],
    key_encoders: Sequence[ColumnEncoder],
    value_codec: Codec,
    key_codec: Codec,
    types: TypeMap,
) -> list[ColumnCode]:
    """What the generated function does with each column."""
    in_row = {c.index: (c, encoder) for c, encoder in zip(row, row_encoders, strict=True)}
    in_key = {c.index: (c, encoder) for c, encoder in zip(key, key_encoders, strict=True)}
    codes = []
    for index in range(len(columns)):
        converted, encoder = in_row.get(index, (None, None))
        key_column, key_encoder = in_key.get(index, (None, None))
        if (
            key_column is not None
            and converted is not None
            and converted.change is None
            and _same_bytes(converted.schema, value_codec, key_codec)
        ):
            key_encoder = None
        fast, shape = (None, None) if converted is None else _direct_ways(converted, value_codec, types)
        codes.append(ColumnCode(encoder, fast, shape, key_encoder))
    return codes


def _direct_ways(
    converted: ConvertedColumn, codec: Codec, types: TypeMap
) -> tuple[Snippet | None, Shape | None]:
    return types.direct_ways(converted.conversion, converted.schema, codec, f"column_{converted.index}")


def _same_bytes(schema: ConnectSchema, value_codec: Codec, key_codec: Codec) -> bool:
    """Whether a cell has the same bytes in the key as in the row (the schema is the same)."""
    if isinstance(value_codec, JsonCodec) and isinstance(key_codec, JsonCodec):
        alike = value_codec.replace_null_with_default is key_codec.replace_null_with_default
        return alike and value_codec.decimal_format is key_codec.decimal_format
    return isinstance(value_codec, AvroCodec) and isinstance(key_codec, AvroCodec) and not schema.optional
