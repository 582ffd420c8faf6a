"""How ``tidings-capture tail`` shows changes: lines for people, or JSON lines for programs. Pure.

JSON values are as PostgreSQL's own ``to_json`` writes them: numbers and booleans as such, ``json`` as it is, everything
else as text. Columns that the WAL does not repeat (unchanged TOASTed values) are left out and named in ``unchanged``.
"""

import datetime
import re
from dataclasses import dataclass
from typing import Any, Final, Protocol

import orjson

from tidings_capture.cdc.cells import UNCHANGED, Cells
from tidings_capture.postgres.wire.messages import Relation
from tidings_envelope.position import lsn_to_text

_BOOLEAN: Final = 16
_NUMBERS: Final = frozenset({20, 21, 23, 26, 700, 701, 1700})
"""``pg_type.oid`` of bigint, smallint, integer, oid, real, double precision and numeric."""
_JSON: Final = frozenset({114, 3802})
_NUMBER: Final = re.compile(rb"-?\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
_LONGEST: Final = 200
"""Characters of a value that a line for people shows."""
_COLOURS: Final = {
    "insert": "32",
    "update": "33",
    "delete": "31",
    "truncate": "35",
    "read": "36",
    "message": "34",
}
_DIM: Final = "2"
OURS: Final = b'{"op":"'
"""What every line of `JsonOutput` begins with."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Which transaction a change belongs to; no transaction for rows of the snapshot."""

    lsn: int
    xid: int | None = None
    commit_us: int | None = None
    """Microseconds since the Unix epoch."""


class Output(Protocol):
    """A form of output; every method gives the text to write, with its newlines."""

    def begin(self, moment: Moment) -> str: ...

    def change(
        self, op: str, relation: Relation, old: Cells | None, new: Cells | None, moment: Moment
    ) -> str: ...

    def message(self, prefix: str, content: bytes, moment: Moment) -> str: ...

    def commit(self, moment: Moment, changes: int) -> str: ...


class JsonOutput:
    """A JSON object a line; transactions are told by ``xid`` and ``commit_time``."""

    def begin(self, moment: Moment) -> str:  # noqa: ARG002 - told by every change
        """Nothing."""
        return ""

    def commit(self, moment: Moment, changes: int) -> str:  # noqa: ARG002
        """Nothing."""
        return ""

    def change(
        self, op: str, relation: Relation, old: Cells | None, new: Cells | None, moment: Moment
    ) -> str:
        """One line."""
        line: dict[str, Any] = {"op": op, "schema": relation.schema or "pg_catalog", "table": relation.name}
        if old is not None:
            line["before"] = _fields(relation, old)
        if new is not None:
            line["after"] = _fields(relation, new)
            unchanged = [c.name for c, cell in zip(relation.columns, new, strict=True) if cell is UNCHANGED]
            if unchanged:
                line["unchanged"] = unchanged
        return _line(line, moment)

    def message(self, prefix: str, content: bytes, moment: Moment) -> str:
        """One line."""
        return _line({"op": "message", "prefix": prefix, "content": content.decode(errors="replace")}, moment)


def _line(line: dict[str, Any], moment: Moment) -> str:
    line |= {"xid": moment.xid, "lsn": lsn_to_text(moment.lsn)}
    if moment.commit_us is not None:
        line["commit_time"] = _time(moment.commit_us)
    return orjson.dumps(line).decode() + "\n"


def _fields(relation: Relation, cells: Cells) -> dict[str, Any]:
    return {
        column.name: _json_value(column.type_oid, cell)
        for column, cell in zip(relation.columns, cells, strict=True)
        if cell is not UNCHANGED
    }


def _json_value(type_oid: int, cell: Any) -> Any:
    if cell is None:
        return None
    if type_oid == _BOOLEAN:
        return cell == b"t"
    if (type_oid in _NUMBERS and _NUMBER.fullmatch(cell)) or type_oid in _JSON:
        return orjson.Fragment(cell)
    return cell.decode(errors="replace")


class TextOutput:
    """A line for each change, indented within its transaction.

    Args:
        colours: whether to write ANSI colours.
    """

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours

    def begin(self, moment: Moment) -> str:
        """The transaction's first line."""
        return self._painted(_DIM, f"BEGIN {moment.xid}  {_time(moment.commit_us or 0)}") + "\n"

    def commit(self, moment: Moment, changes: int) -> str:
        """The transaction's last line."""
        counted = "1 change" if changes == 1 else f"{changes} changes"
        return self._painted(_DIM, f"COMMIT {moment.xid}  {counted}") + "\n"

    def change(
        self, op: str, relation: Relation, old: Cells | None, new: Cells | None, moment: Moment
    ) -> str:
        """One line; an update shows former values where the WAL tells them."""
        name = f"{relation.schema or 'pg_catalog'}.{relation.name}"
        pairs = _pairs(relation, old, new)
        indent = "" if moment.xid is None else "  "
        head = self._painted(_COLOURS[op], f"{op.upper():<8}")
        return " ".join([f"{indent}{head} {_printable(name)} ", *pairs]).rstrip() + "\n"

    def message(self, prefix: str, content: bytes, moment: Moment) -> str:
        """One line."""
        indent = "" if moment.xid is None else "  "
        head = self._painted(_COLOURS["message"], f"{'MESSAGE':<8}")
        return f"{indent}{head} {_printable(prefix)}  {_shown(content, quoted=True)}\n"

    def _painted(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours else text


def _pairs(relation: Relation, old: Cells | None, new: Cells | None) -> list[str]:
    if new is None:
        shown = [
            (column, cell)
            for column, cell in zip(relation.columns, old or [], strict=False)
            if cell is not UNCHANGED
        ]
        return [f"{_printable(column.name)}={_value(column.type_oid, cell)}" for column, cell in shown]
    before: list[Any] = [UNCHANGED] * len(new) if old is None else list(old)
    pairs = []
    for column, former, cell in zip(relation.columns, before, new, strict=True):
        value = _value(column.type_oid, cell)
        if former is not UNCHANGED and cell is not UNCHANGED and former != cell:
            value = f"{_value(column.type_oid, former)}→{value}"
        pairs.append(f"{_printable(column.name)}={value}")
    return pairs


def _value(type_oid: int, cell: Any) -> str:
    if cell is None:
        return "null"
    if cell is UNCHANGED:
        return "(unchanged)"
    if type_oid == _BOOLEAN:
        return "true" if cell == b"t" else "false"
    return _shown(cell, quoted=type_oid not in _NUMBERS)


def _shown(cell: bytes, *, quoted: bool) -> str:
    text = cell.decode(errors="replace")
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "…"
    text = _printable(text)
    if not quoted:
        return text
    doubled = text.replace("'", "''")  # as in SQL, so that it is clear where a value ends
    return f"'{doubled}'"


def _printable(text: str) -> str:
    """No character that could move a terminal's cursor or end the line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _time(microseconds: int) -> str:
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
        microseconds=microseconds
    )
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
