"""How one column of one relation version is encoded by one codec."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tidings_capture.cdc.cells import Cell
from tidings_capture.cdc.encoding import column_sizes
from tidings_capture.cdc.encoding.column_mappers import Change
from tidings_capture.cdc.encoding.options import ConversionOptions, FailureHandling
from tidings_capture.cdc.encoding.type_map import TypeMap
from tidings_capture.cdc.naming import adjusted
from tidings_capture.cdc.tables import Column, Table
from tidings_capture.cdc.types.conversion import (
    CellError,
    Conversion,
    ConversionError,
    Kind,
    NoRepresentationError,
)
from tidings_envelope.codec import Codec
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema
from tidings_service import get_logger

_log = get_logger("tidings_capture.conversion")


@dataclass(frozen=True, slots=True)
class ConvertedColumn:
    """A column with its conversion and the schema of its field."""

    index: int
    """Its place in the database's rows."""
    column: Column
    conversion: Conversion
    schema: ConnectSchema
    field: str
    """The field's name: the column's, as far as ``field.name.adjustment.mode`` lets it."""
    change: Change | None = None
    """What an option makes of the converted value, nulls and placeholders included."""


def converted_column(
    index: int, column: Column, types: TypeMap, options: ConversionOptions
) -> ConvertedColumn | None:
    """A column's conversion; None where Debezium leaves columns of the type out."""
    conversion = types.conversion(column, options)
    if conversion is None:
        return None
    schema = replace(
        conversion.schema,
        optional=conversion.schema.optional or not column.not_null,
        default=types.default(column, conversion, options),
    )
    return ConvertedColumn(
        index, column, conversion, schema, adjusted(column.name, options.field_names, field=True)
    )


def mapped_column(
    converted: ConvertedColumn, table: Table, types: TypeMap, options: ConversionOptions
) -> ConvertedColumn:
    """The column as it stands in rows: the same, but for a column that an option masks, cuts or describes."""
    column = converted.column
    rule = options.mappers.rule_for(table.schema, table.name, column.name)
    if rule is None:
        return _with_source_type(converted, table, types, options)
    schema = converted.schema
    mapped = column_sizes.mapped_column(column)
    schema = replace(schema, parameters={**schema.parameters, **rule.parameters(mapped)})
    change = rule.change(mapped)
    conversion = converted.conversion
    if change is not None:
        conversion = replace(conversion, kind=Kind.OTHER)
    return replace(converted, conversion=conversion, schema=schema, change=change)


T = TypeVar("T")


def _unchanged(value: T) -> T:
    return value


def _changed(converted: ConvertedColumn) -> Callable[[bytes], Any]:
    convert, change = converted.conversion.convert, converted.change
    return convert if change is None else lambda cell: change(convert(cell))


def _with_source_type(
    converted: ConvertedColumn, table: Table, types: TypeMap, options: ConversionOptions
) -> ConvertedColumn:
    """The column with the parameters of ``*.propagate.source.type``, which only values carry, never keys."""
    parameters = types.source_type(table, converted.column, options)
    if not parameters:
        return converted
    schema = converted.schema
    return replace(converted, schema=replace(schema, parameters={**schema.parameters, **parameters}))


class ColumnEncoder:
    """Encodes a column's cells, in the safe way through Python values."""

    __slots__ = (
        "_column",
        "_convert",
        "_encode",
        "_failures",
        "_null_value",
        "_optional",
        "_unchanged_value",
        "_warned",
        "index",
        "null",
        "unchanged",
    )

    def __init__(
        self, converted: ConvertedColumn, codec: Codec, failures: FailureHandling = FailureHandling.WARN
    ) -> None:
        schema = converted.schema
        self.index = converted.index
        self._column = converted.column
        self._convert = _changed(converted)
        self._encode = codec.encoder(schema)
        self._optional = schema.optional
        self._failures = failures
        self._warned = False
        nullable = not converted.column.not_null
        has_default = schema.default is not NO_DEFAULT
        self._null_value = schema.default if has_default else None if nullable else converted.conversion.zero
        change = converted.change or _unchanged
        self.null = self._encode(change(None if nullable else self._null_value))
        """What a null becomes. In a column that allows none it is the default or a zero, because nulls there are only
        what a deleted row's old key leaves out."""
        self._unchanged_value = change(converted.conversion.unchanged)
        can_be_said = schema.optional or self._unchanged_value is not None
        self.unchanged = self._encode(self._unchanged_value) if can_be_said else None
        """What an unchanged TOASTed value becomes; None where there is nothing that could be said."""

    def present(self, cell: bytes) -> bytes:
        """Encodes a cell that is there.

        Raises:
            ConversionError: the cell is not of the column's type; names the column.
        """
        try:
            return self._encode(self._representation(cell))
        except CellError as error:
            raise self._refusal(str(error)) from error
        except (ValueError, ArithmeticError):
            # without its cause, which may quote the cell
            raise self._refusal("the value is not in the database's text format") from None

    def _representation(self, cell: bytes) -> Any:
        """The Python value, None where the schema has no place for it and the options allow a null instead."""
        try:
            value = self._convert(cell)
        except NoRepresentationError as error:
            if not self._optional or self._failures is FailureHandling.FAIL:
                raise
            self._warn(str(error))
            return None
        if value is None and not self._optional:
            raise NoRepresentationError("the value has no representation in Debezium's schema")
        return value

    def _warn(self, reason: str) -> None:
        """Say once per column and relation version that a value was left out."""
        if self._failures is FailureHandling.WARN and not self._warned:
            self._warned = True
            _log.warning(
                "a value became null", column=self._column.name, type=self._column.type_name, reason=reason
            )

    def cell(self, cell: Cell) -> bytes:
        """Encodes any cell."""
        if isinstance(cell, bytes):
            return self.present(cell)
        return self.null if cell is None else self.placeholder()

    def value(self, cell: Cell) -> Any:
        """The Python value of a cell that `cell` has encoded without an error."""
        if isinstance(cell, bytes):
            return self._representation(cell)
        return self._null_value if cell is None else self._unchanged_value

    def placeholder(self) -> bytes:
        """An unchanged TOASTed value.

        Raises:
            ConversionError: there is no placeholder for the type, and the column allows no null.
        """
        if self.unchanged is None:
            raise self._refusal(
                "an unchanged TOASTed value has no placeholder, and the column allows no null"
            )
        return self.unchanged

    def _refusal(self, why: str) -> ConversionError:
        column = self._column
        return ConversionError(
            f"column {column.name!r} of type {column.type_name}: {why}",
            hint="change the column's replica identity or storage, or leave it out with column.exclude.list",
        )
