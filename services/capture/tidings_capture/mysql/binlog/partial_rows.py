"""Updates of which the log has only what has changed inside of JSON documents (``binlog_row_value_options=PARTIAL_JSON``). Pure.

Behind a row's usual cells before the update stand, for the row after it, options, a bit for each JSON column of the table that
says whether changes stand in the place of the document, and the cells. A change replaces, inserts or removes what a path leads to.

Format: ``sql/json_diff.h``, ``Rows_log_event::unpack_current_row`` in ``sql/log_event.cc`` of MySQL.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from tidings_capture.mysql.binlog import table_map as kinds
from tidings_capture.mysql.binlog.cells import MISSING, Cells
from tidings_capture.mysql.binlog.json_value import Document, document, json_cell, written
from tidings_capture.mysql.binlog.reader import Reader
from tidings_capture.mysql.binlog.table_map import LoggedColumn
from tidings_capture.mysql.errors import UnsupportedError

ReadImage = Callable[[bytes, int, Callable[[Cells], None]], int]
"""Reads one image of a row at a byte, hands it on, and says where it ends."""
_PARTIAL: Final = 1
"""Of a row's options: it has bits for its JSON columns."""
_REPLACE: Final = 0
_INSERT: Final = 1
_REMOVE: Final = 2
_LEG: Final = re.compile(r'\.(?:([^."\[\]\s]+)|("(?:[^"\\]|\\.)*"))|\[(\d+)\]', re.DOTALL)


def read_partial_rows(
    data: bytes, start: int, columns: Sequence[LoggedColumn], before: ReadImage, after: ReadImage
) -> list[Cells]:
    """The rows of an event: each before its update and behind it, by turns.

    Args:
        before: gives the bytes of JSON columns as they are; so does `after`.

    Raises:
        UnsupportedError: a change is of a document that the row before the update does not have.
        ValueError: the event is malformed; BinlogError, IndexError and struct.error, too.
    """
    documents = [index for index, column in enumerate(columns) if column.type == kinds.JSON]
    size = (len(documents) + 7) // 8
    found: list[Cells] = []
    at = start
    while at < len(data):
        at = before(data, at, found.append)
        old = found.pop()
        reader = Reader(data, at, len(data), "the options of a row")
        options = reader.packed()
        if options & ~_PARTIAL:
            raise ValueError("a row has options that are not known")
        bits = reader.number(size) if options & _PARTIAL else 0
        at = after(data, reader.position, found.append)
        new = found.pop()
        changed = {index for place, index in enumerate(documents) if bits >> place & 1}
        found.append(_told(old, columns, documents))
        found.append(_updated(old, new, columns, documents, changed))
    return found


def _told(row: Cells, columns: Sequence[LoggedColumn], documents: Sequence[int]) -> Cells:
    cells = list(row)
    for index in documents:
        if isinstance(cells[index], bytes):
            cells[index] = json_cell(nullable=columns[index].nullable)(cells[index])
    return tuple(cells)


def _updated(
    old: Cells,
    new: Cells,
    columns: Sequence[LoggedColumn],
    documents: Sequence[int],
    changed: set[int],
) -> Cells:
    cells = list(_told(new, columns, [index for index in documents if index not in changed]))
    for index in changed:
        if not isinstance(new[index], bytes):
            continue  # of an image without the column
        if old[index] is MISSING:
            raise UnsupportedError(
                f"the log has only what has changed in the JSON of column {columns[index].name or index + 1!r}, and not what it"
                " was before",
                hint="set binlog_row_image=FULL, or binlog_row_value_options='', on the server, and take a new snapshot",
            )
        if not isinstance(old[index], bytes):
            raise ValueError("a change is of a document that was null")  # noqa: TRY004 - the bytes are wrong
        cells[index] = changed_text(old[index], new[index])
    return tuple(cells)


def changed_text(before: bytes, changes: bytes) -> str:
    """The text of a document behind changes of it.

    Raises:
        ValueError: document or changes are malformed, or do not fit each other.
        BinlogError: the changes end too early.
    """
    root: list[Any] = [document(before)]
    reader = Reader(changes, 0, len(changes), "the changes of a JSON document")
    while reader.left:
        operation, path = reader.number(1), reader.sized()
        value = None if operation == _REMOVE else document(reader.sized())
        holder: Any = root
        place: Any = 0
        for leg in _legs(path.decode()):
            holder, place = _inside(holder, place), leg
        _apply(operation, holder, place, value)
    return written(root[0])


def _legs(path: str) -> list[str | int]:
    if not path.startswith("$"):
        raise ValueError("a path does not begin at the document")
    legs: list[str | int] = []
    at = 1
    while at < len(path):
        match = _LEG.match(path, at)
        if match is None:
            raise ValueError("a path is not known")
        name, quoted, index = match.groups()
        legs.append(int(index) if index is not None else json.loads(quoted) if quoted is not None else name)
        at = match.end()
    return legs


def _inside(holder: Any, place: str | int) -> Document:
    _check(holder, place)
    found: Document = holder[place]
    return found


def _check(holder: Any, place: str | int) -> None:
    fits = isinstance(holder, dict if isinstance(place, str) else list)
    if not fits or (place not in holder if isinstance(place, str) else place >= len(holder)):
        raise ValueError("a path leads to nothing in the document")


def _apply(operation: int, holder: Any, place: Any, value: Any) -> None:
    if operation == _INSERT:
        if isinstance(holder, list) and isinstance(place, int):
            holder.insert(place, value)  # at the end, where it is beyond it, as the server does
        elif isinstance(holder, dict) and isinstance(place, str) and place not in holder:
            members = sorted({**holder, place: value}.items(), key=lambda member: _order(member[0]))
            holder.clear()
            holder.update(members)
        else:
            raise ValueError("a value cannot be inserted where a path leads")
        return
    _check(holder, place)
    if operation == _REPLACE:
        holder[place] = value
    elif operation == _REMOVE:
        del holder[place]
    else:
        raise ValueError("a change of a JSON document is not known")


def _order(name: str) -> tuple[int, bytes]:
    """The server's: by length, then by bytes."""
    data = name.encode()
    return len(data), data
