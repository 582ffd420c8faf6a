"""Tables as the topic of schema changes describes them: Debezium's ``tableChanges``, from what the server knows of a table now."""

import re
from collections.abc import Mapping
from typing import Any, Final

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.encoding.selected import GEOMETRIES, TEXTS
from tidings_capture.mysql.schemas.catalog import Table, table
from tidings_capture.mysql.schemas.declared import LABEL, declared_type
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema, ConnectType

_INT32: Final = ConnectSchema(ConnectType.INT32)
_OPTIONAL_INT32: Final = _INT32.as_optional()
_OPTIONAL_BOOLEAN: Final = ConnectSchema(ConnectType.BOOLEAN, optional=True)
_STRINGS: Final = semantic.array(semantic.STRING).as_optional()
_COLUMN: Final = semantic.struct(
    "io.debezium.connector.schema.Column",
    (
        ("name", semantic.STRING),
        ("jdbcType", _INT32),
        ("nativeType", _OPTIONAL_INT32),
        ("typeName", semantic.STRING),
        ("typeExpression", semantic.OPTIONAL_STRING),
        ("charsetName", semantic.OPTIONAL_STRING),
        ("length", _OPTIONAL_INT32),
        ("scale", _OPTIONAL_INT32),
        ("position", _INT32),
        ("optional", _OPTIONAL_BOOLEAN),
        ("autoIncremented", _OPTIONAL_BOOLEAN),
        ("generated", _OPTIONAL_BOOLEAN),
        ("comment", semantic.OPTIONAL_STRING),
        ("defaultValueExpression", semantic.OPTIONAL_STRING),
        ("enumValues", _STRINGS),
    ),
    version=1,
)
_TABLE: Final = semantic.struct(
    "io.debezium.connector.schema.Table",
    (
        ("defaultCharsetName", semantic.OPTIONAL_STRING),
        ("primaryKeyColumnNames", _STRINGS),
        ("columns", semantic.array(_COLUMN)),
        ("comment", semantic.OPTIONAL_STRING),
    ),
    version=1,
).as_optional()
CHANGE: Final = semantic.struct(
    "io.debezium.connector.schema.Change",
    (("type", semantic.STRING), ("id", semantic.STRING), ("table", _TABLE)),
    version=1,
)
"""The schema of a change of a table."""

_MORE: Final = """
SELECT column_name, extra FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
"""
_OF_TABLE: Final = """
SELECT t.table_comment, c.character_set_name FROM information_schema.tables t
LEFT JOIN information_schema.collation_character_set_applicability c ON c.{collation} = t.table_collation
WHERE t.table_schema = %s AND t.table_name = %s
"""
_BITS: Final = re.compile(r"b'([01]*)'")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_NOW: Final = "current_timestamp"
_OTHER: Final = 1111
_JDBC: Final = {
    "tinyint": 5,
    "smallint": 5,
    "mediumint": 4,
    "int": 4,
    "bigint": -5,
    "float": 6,
    "double": 8,
    "decimal": 3,
    "bit": -7,
    "year": 4,
    "date": 91,
    "time": 92,
    "datetime": 93,
    "timestamp": 2014,
    "char": 1,
    "enum": 1,
    "set": 1,
    "binary": -2,
    "varbinary": -3,
    "tinyblob": 2004,
    "blob": 2004,
    "mediumblob": 2004,
    "longblob": 2004,
    "uuid": _OTHER,
    "inet4": _OTHER,
    "inet6": _OTHER,
}
"""``java.sql.Types``; other texts are VARCHAR (12), geometries OTHER."""


def structure(
    session: Session, database: str, name: str, *, comments: bool
) -> tuple[Table, dict[str, Any]] | None:
    """A table now, and as its description; None where there is none now.

    Args:
        comments: whether it has those of the table and its columns.

    Raises:
        MariaDbError: the server cannot be asked.
    """
    found = table(session, database, name)
    collation = "full_collation_name" if session.shares_collations else "collation_name"
    about = session.rows(_OF_TABLE.replace("{collation}", collation), (database, name))
    if found is None or not about:
        return None
    comment, charset = about[0]
    extras = dict(session.rows(_MORE, (database, name)))
    return found, {
        "defaultCharsetName": charset,
        "primaryKeyColumnNames": list(found.primary or found.unique),
        "columns": [
            _column(found, position, extras.get(column.name, ""), comments=comments)
            for position, column in enumerate(found.columns)
        ],
        "comment": (comments and comment) or None,
    }


def _column(of: Table, position: int, extra: str, *, comments: bool) -> dict[str, Any]:
    column = of.columns[position]
    declared = declared_type(column)
    name = declared.name
    counts = "auto_increment" in extra.lower()
    return {
        "name": column.name,
        "jdbcType": _jdbc(column.type),
        "nativeType": None,
        "typeName": name,
        "typeExpression": name,
        "charsetName": column.charset,
        "length": declared.length,
        "scale": declared.scale,
        "position": position + 1,
        "optional": column.nullable,
        "autoIncremented": counts,
        "generated": counts,
        "comment": (comments and column.comment) or None,
        "hasDefaultValue": column.nullable or column.default is not None,  # of the schema history only
        "defaultValueExpression": None if column.generated else _default(column.type, column.default),
        "enumValues": list(declared.labels) or None,
    }


def _jdbc(kind: str) -> int:
    if kind in GEOMETRIES:
        return _OTHER
    return _JDBC.get(kind, 12 if kind in TEXTS else _OTHER)


def _default(kind: str, text: str | None) -> str | None:
    """A constant without its quotes, as SQL writes it; None for an expression."""
    if text is None or text == "NULL":
        return None
    bits = _BITS.fullmatch(text)
    if bits is not None:
        return bits[1]
    if LABEL.fullmatch(text):
        return text[1:-1]
    if kind in {"timestamp", "datetime"} and text.lower().startswith(_NOW):
        return "1970-01-01 00:00:00"
    return text if _NUMBER.fullmatch(text) else None


def change(kind: str, database: str, name: str, described: Mapping[str, Any] | None) -> dict[str, Any]:
    """A change of a table.

    Args:
        kind: ``CREATE``, ``ALTER`` or ``DROP``.
        described: the table after it, where it is known.
    """
    parts = (part.replace('"', '""') for part in (database, name))
    return {"type": kind, "id": ".".join(f'"{part}"' for part in parts), "table": described}
