"""What an Avro schema lets a body do to its reader, and whether it is an envelope's: looked at once for each schema.

The reader goes as deep as the schema does, in C, where too deep is the end of the process; and an item of no bytes (null, a
record without fields) may be there as often as a count of nine bytes says. Connect has neither: its schemas are finite and
its items have bytes. So a schema in which either can happen is refused, and then a body can take no more than its own
length times the schema's size.
"""

from typing import Any

from tidings_envelope.errors import DecodeError

MAX_DEPTH = 64
"""Of a value or of its schema: Debezium's deepest are four or five (row, column, array, struct)."""

_TEXT = frozenset(("string", "enum"))
_NUMBER = frozenset(("int", "long"))
_NULL = frozenset(("null",))
_RECORD = frozenset(("record",))
_ENVELOPE = {"op": _TEXT, "source": _RECORD, "before": _RECORD | _NULL, "after": _RECORD | _NULL,
             "transaction": _RECORD | _NULL}  # fmt: skip
_ENVELOPE_MORE = dict.fromkeys(("ts_ms", "ts_us", "ts_ns"), _NUMBER | _NULL)
_SOURCE = {
    "name": _TEXT,
    "db": _TEXT,
    "schema": _TEXT,
    "table": _TEXT,
    "ts_ms": _NUMBER,
    "snapshot": _TEXT | _NULL,
}
_SOURCE_MORE = {
    **dict.fromkeys(("ts_us", "ts_ns", "txId", "lsn", "origin_lsn"), _NUMBER | _NULL),
    **dict.fromkeys(("sequence", "origin", "version", "connector"), _TEXT | _NULL),
}
_BINLOG_SOURCE = {name: kinds for name, kinds in _SOURCE.items() if name != "schema"} | {
    "table": _TEXT | _NULL,
    "connector": _TEXT,
    "gtid": _TEXT | _NULL,
}
_TRANSACTION = {"id": _TEXT, "total_order": _NUMBER, "data_collection_order": _NUMBER}


def check_bounded(schema: Any, what: str) -> None:
    """Whether reading a body with this parsed schema takes a bounded stack and memory.

    Raises:
        DecodeError: it does not.
    """
    _Bounds(what).least_bytes(schema, 0)


class _Bounds:
    """Walks a schema once."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._named: dict[str, int | None] = {}
        """The least bytes of a named type; None while it is walked."""

    def least_bytes(self, schema: Any, depth: int) -> int:
        """The fewest bytes of a value: nought, one, or at least one."""
        if depth > MAX_DEPTH:
            raise DecodeError(f"{self._what} is more than {MAX_DEPTH} types deep")
        if isinstance(schema, list):
            for branch in schema:
                self.least_bytes(branch, depth + 1)
            return 1
        if isinstance(schema, str):
            if schema not in self._named:
                return int(schema != "null")
            known = self._named[schema]
            if known is None:
                raise DecodeError(f"{self._what} holds itself: a value may be of any depth")
            return known
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema, depth)
        if kind in ("enum", "fixed"):
            least = self._named[schema["name"]] = 1 if kind == "enum" else int(schema["size"] > 0)
            return least
        if kind in ("array", "map"):
            least = self.least_bytes(schema["items" if kind == "array" else "values"], depth + 1)
            if kind == "array" and not least:
                raise DecodeError(
                    f"{self._what} has an array whose items take no bytes: there may be any number"
                )
            return 1
        return self.least_bytes(kind, depth + 1)

    def _record(self, schema: dict[str, Any], depth: int) -> int:
        self._named[schema["name"]] = None
        least = max((self.least_bytes(field["type"], depth + 1) for field in schema["fields"]), default=0)
        self._named[schema["name"]] = least
        return least


def envelope_of(schema: Any) -> str | None:
    """The connector, or family of connectors, of whose envelopes what is read with this parsed schema has the fields, of their types; None: of none."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return None
    named: dict[str, dict[str, Any]] = {}
    _collect(schema, named)
    if not _fits(schema, named, _ENVELOPE, _ENVELOPE_MORE):
        return None
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    if not all(_fits(record, named, _TRANSACTION, {}) for record in _records(fields["transaction"], named)):
        return None
    sources = _records(fields["source"], named)
    for connector, needed in (("postgresql", _SOURCE), ("binlog", _BINLOG_SOURCE)):
        if all(_fits(record, named, needed, _SOURCE_MORE) for record in sources):
            return connector
    return None


def _collect(schema: Any, named: dict[str, dict[str, Any]]) -> None:
    """The named types of a bounded schema."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, named)
    elif isinstance(schema, dict):
        if "name" in schema and "type" in schema:
            named[schema["name"]] = schema
        for inner in ("type", "items", "values"):
            _collect(schema.get(inner), named)
        for field in schema.get("fields", ()):
            _collect(field["type"], named)


def _fits(
    record: dict[str, Any],
    named: dict[str, dict[str, Any]],
    needed: dict[str, frozenset[str]],
    more: dict[str, frozenset[str]],
) -> bool:
    fields = {field["name"]: field["type"] for field in record["fields"]}
    return needed.keys() <= fields.keys() and all(
        _kinds(fields[name], named) <= allowed for name, allowed in (needed | more).items() if name in fields
    )


def _kinds(schema: Any, named: dict[str, dict[str, Any]]) -> frozenset[str]:
    """The types that a value may have."""
    if isinstance(schema, list):
        return frozenset().union(*(_kinds(branch, named) for branch in schema))
    if isinstance(schema, str):
        return frozenset((named[schema]["type"] if schema in named else schema,))
    kind = schema["type"]
    return frozenset((kind,)) if isinstance(kind, str) and kind not in named else _kinds(kind, named)


def _records(schema: Any, named: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The records among the types that a value may have."""
    if isinstance(schema, list):
        return [record for branch in schema for record in _records(branch, named)]
    if isinstance(schema, str):
        return _records(named[schema], named) if schema in named else []
    if schema["type"] == "record":
        return [schema]
    return _records(schema["type"], named) if not isinstance(schema["type"], str) else []
