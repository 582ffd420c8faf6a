"""Fields as they stand in rows: masked, cut, hashed or described, where options say so; keys are never. Pure.

Reference: ``io.debezium.relational.mapping``.
"""

from dataclasses import replace

from tidings_capture.cdc.encoding.column_mappers import UNLIMITED, Change, MappedColumn, Rule
from tidings_capture.cdc.encoding.source_types import told_type
from tidings_capture.cdc.filters import matches
from tidings_capture.mysql.encoding.fields import FieldOptions, RowField
from tidings_capture.mysql.encoding.kinds import Convert
from tidings_capture.mysql.encoding.selected import TEXTS
from tidings_capture.mysql.schemas.catalog import Column, Table
from tidings_capture.mysql.schemas.declared import declared_type
from tidings_envelope.decimals import CONNECT_DECIMAL
from tidings_envelope.schema import NO_DEFAULT, ConnectType
from tidings_service import get_logger

_log = get_logger(__name__)


def mapped_field(field: RowField, table: Table, column: Column, options: FieldOptions) -> RowField:
    """A column's field in rows."""
    rule = options.mappers.rule_for(table.database, table.name, column.name)
    if rule is None:
        return _described(field, table, column, options)
    mapped = _mapped(column)
    schema = replace(field.schema, parameters={**field.schema.parameters, **rule.parameters(mapped)})
    change = rule.change(mapped)
    field = replace(field, schema=schema)
    if change is None and rule.action != "truncate":
        _warn(rule, table, column)
    # Debezium cuts texts and bytes, whatever they are in the database.
    if (
        change is None
        or schema.type not in {ConnectType.STRING, ConnectType.BYTES}
        or schema.name == CONNECT_DECIMAL
    ):
        return field
    convert = _changed(field.convert, change)
    missing = field.unavailable
    return replace(
        field,
        convert=convert,
        regular=convert,
        null=change(None),
        unavailable=missing if missing is NO_DEFAULT else change(missing),
        is_changed=True,
    )


def _mapped(column: Column) -> MappedColumn:
    length = declared_type(column).length
    return MappedColumn(
        column.name,
        is_text=column.type in TEXTS,
        length=UNLIMITED if length is None else length,
        can_be_cut=column.type != "bit",
    )


def _changed(convert: Convert, change: Change) -> Convert:
    return lambda cell: change(convert(cell))


def _warn(rule: Rule, table: Table, column: Column) -> None:
    _log.warning(
        "a column's values are told as they are: masks and hashes are for texts only",
        option=f"column.mask.{'with' if rule.action == 'mask' else 'hash'}.*",
        table=table.qualified,
        column=column.name,
        type=column.type,
    )


def _described(field: RowField, table: Table, column: Column, options: FieldOptions) -> RowField:
    """With the parameters of ``*.propagate.source.type``."""
    if not (options.propagated_columns or options.propagated_types):
        return field
    declared = declared_type(column)
    if not (
        matches(options.propagated_columns, f"{table.qualified}.{column.name}")
        or matches(options.propagated_types, f"{table.qualified}.{declared.name}")
    ):
        return field
    comment = column.comment if options.comments else ""
    told = told_type(column.name, declared.name, declared.length, declared.scale, comment)
    schema = replace(field.schema, parameters={**field.schema.parameters, **told})
    return replace(field, schema=schema)
