"""What a table's metadata say of its columns beside their types: comments, which may not be null, which identify a row.

Each is changed in one commit of metadata, which makes no snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as st

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMENTS_PROPERTY = "tidings.comments"
"""The comments that this job has given to a table, by path: those that somebody else has given stay as they are."""
TABLE_COMMENT = "comment"
"""Property by which engines show a table's own comment."""
_NO_IDENTIFIERS = (st.FloatType, st.DoubleType, st.StructType, st.ArrayType, st.MapType)
"""Types that Iceberg's identifier fields may not have (specification, "Identifier Field IDs")."""


def identifiers_of(schema: st.StructType, keys: Sequence[str], required: Collection[str]) -> tuple[str, ...]:
    """The identifier fields of a table with that key: all of its columns, or none if one of them may be null."""
    types = {field.name: field.dataType for field in schema.fields}
    usable = all(key in required and not isinstance(types[key], _NO_IDENTIFIERS) for key in keys)
    return tuple(keys) if usable else ()


def never_null_in(schema: st.StructType) -> frozenset[str]:
    """The columns of a table that may not be null."""
    return frozenset(field.name for field in schema.fields if not field.nullable)


def bare_columns(schema: st.StructType) -> st.StructType:
    """As columns are compared: neither its comment nor that it may not be null is a part of a column's type."""
    return st.StructType([st.StructField(field.name, _bare(field.dataType)) for field in schema.fields])


def _bare(data_type: st.DataType) -> st.DataType:
    if isinstance(data_type, st.StructType):
        fields = [st.StructField(one.name, _bare(one.dataType), one.nullable) for one in data_type.fields]
        return st.StructType(fields)
    if isinstance(data_type, st.ArrayType):
        return st.ArrayType(_bare(data_type.elementType), data_type.containsNull)
    if isinstance(data_type, st.MapType):
        key, value = _bare(data_type.keyType), _bare(data_type.valueType)
        return st.MapType(key, value, data_type.valueContainsNull)
    return data_type


class Descriptions:
    """Changes what tables' metadata say; for any thread, each table by one at a time."""

    def __init__(self, session: SparkSession) -> None:
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to Iceberg's own interface
        self._jvm = jvm

    def identified(self, columns: Any, names: Sequence[str]) -> Any:
        """Iceberg's schema of a new table, with identifier fields."""
        if not names:
            return columns
        ids = self._jvm.java.util.HashSet()
        for name in names:
            ids.add(columns.findField(name).fieldId())
        return self._jvm.org.apache.iceberg.Schema(columns.columns(), ids)

    def relax(self, table: Any, optional: Collection[str], identifiers: Sequence[str]) -> None:
        """Let columns be null, and have others, or none, identify a row."""
        update, names = table.updateSchema(), self._jvm.java.util.ArrayList()
        for name in sorted(optional):
            update = update.makeColumnOptional(name)
        for name in identifiers:
            names.add(name)
        update.setIdentifierFields(names).commit()

    def comment(self, table: Any, told: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
        """Give a table's columns comments, those of a struct's fields by their path; gives what it has then.

        Args:
            told: what it was given before.
            wanted: what it is to have; "" is the table itself.
        """
        schema = table.schema()
        has = {path: text for path, text in wanted.items() if not path or schema.findField(path) is not None}
        changed = {path: has.get(path) for path in {*told, *has} if told.get(path) != has.get(path)}
        if not changed:
            return has
        transaction = table.newTransaction()
        columns = [
            (path, text)
            for path, text in sorted(changed.items())
            if path
            and (field := schema.findField(path)) is not None
            # One that has lost its comment, and has somebody else's by now, keeps it.
            and (text is not None or field.doc() == told[path])
        ]
        if columns:
            update = transaction.updateSchema()
            for path, text in columns:
                update = update.updateColumnDoc(path, text)
            update.commit()
        properties = transaction.updateProperties().set(COMMENTS_PROPERTY, json.dumps(has))
        own = changed.get("")
        if own is not None:
            properties = properties.set(TABLE_COMMENT, own)
        elif "" in changed and table.properties().get(TABLE_COMMENT) == told[""]:
            properties = properties.remove(TABLE_COMMENT)
        properties.commit()
        transaction.commitTransaction()
        return has
