"""Tells the topic what the database has for keys that a signal names: see `cdc.incremental.given_keys`.

Which row a key is of is decided by the values that records have, not by how the server compares: with a collation that does
not tell ``A`` from ``a`` a row ``a`` is none of the key ``A``, whose delete is told.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from tidings_capture.cdc.incremental.given_keys import named_columns
from tidings_capture.cdc.incremental.state import Collection, Key
from tidings_capture.mysql.binlog.cells import Cells
from tidings_capture.mysql.encoding.records import Place
from tidings_capture.mysql.incremental.chunk_query import look_up_query
from tidings_capture.mysql.incremental.chunks import MariaDbChunks
from tidings_capture.mysql.incremental.key_texts import absent_cell, equals, key_cell
from tidings_capture.mysql.incremental.session import ChunkSession
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_capture.mysql.streaming.observers import Observers
from tidings_connect.task.output import Output
from tidings_connect.transforms.record import Header, SourceRecord
from tidings_envelope import semantic
from tidings_envelope.errors import DecodeError
from tidings_envelope.gtid import gtid_of
from tidings_envelope.headers import as_of
from tidings_envelope.headers.repair import HEADER


class GoneCells(tuple[object, ...]):
    """The key's cells of a row that the table does not have; of the others `absent_cell`."""


class MariaDbGivenKeys(MariaDbChunks):
    """See `ChunkSource`. A chunk's end is the number of keys that have been looked up.

    Args:
        is_between: whether the stream stands between two transactions.
    """

    def __init__(
        self,
        config: MariaDbConfig,
        session: ChunkSession,
        output: Output,
        observers: Observers,
        is_between: Callable[[], bool],
    ) -> None:
        super().__init__(config, session, output, observers)
        self._is_between = is_between
        self._keys: Sequence[Mapping[str, str]] = ()
        self._mark = ""

    def find(self, collection: Collection) -> str | None:
        """See `MariaDbChunks.find`.

        Raises:
            LookupError: a key has other columns than the table's.
        """
        status = super().find(collection)
        if status is None:
            names = [column.name for column in self._columns]
            self._keys = [named_columns(key, names) for key in collection.keys]
            self._mark = collection.correlation_id or ""
        return status

    def largest_key(self) -> Key | None:
        """The keys are known; nothing is asked."""
        return []

    def keyed_rows(
        self,
        after: Key | None,
        maximum: Key | None,  # noqa: ARG002
        limit: int,
    ) -> list[tuple[Hashable | None, Cells]]:
        """What the database has for the next keys; a row that is not there is a `GoneCells`."""
        assert self._table is not None
        assert self._writer is not None
        start = int(after[0] or 0) if after else 0
        keys = self._keys[start : start + limit]
        self.end = [str(start + len(keys))] if keys else None
        if not keys:
            return []
        plan = self._writer.plan
        found = {
            plan.key_values(cells): cells
            for cells in map(self._cells, self._ask(look_up_query(self._table, self._among(keys))))
        }
        asked = (self._gone(key) for key in keys)
        return self._keyed(found.get(plan.key_values(gone), gone) for gone in asked)

    def send(self, rows: Iterable[Cells], context: Place) -> int:
        """The rows, or their deletes, with the mark.

        A row that is read shows the last transaction of the stream, where the stream is not in the midst of it; that there is none yet, all do.
        """
        plan, count = self._follow(context).plan, 0
        headers = [Header(HEADER, semantic.STRING, self._mark)]
        if self._is_between() and context.gtid is not None:
            headers += _as_of(context.gtid)
        for cells in rows:
            is_gone = isinstance(cells, GoneCells)
            records = plan.delete(cells, self._place, None) if is_gone else plan.read(cells, self._place)
            for record in records:
                self._output.write(_with(record, headers), trusted=True)
            count += 1
        return count

    def _among(self, keys: Sequence[Mapping[str, str]]) -> str:
        return " OR ".join(
            "(" + " AND ".join(equals(column, key[column.name]) for column in self._columns) + ")"
            for key in keys
        )

    def _gone(self, key: Mapping[str, str]) -> GoneCells:
        assert self._table is not None
        return GoneCells(
            key_cell(column, key[column.name]) if column.name in key else absent_cell(column)
            for column in self._table.columns
        )


def _as_of(gtid: str) -> list[Header]:
    try:
        return [Header(as_of.HEADER, semantic.STRING, str(gtid_of(gtid).commit_position))]
    except DecodeError:  # MySQL's
        return []


def _with(record: SourceRecord, headers: Sequence[Header]) -> SourceRecord:
    return record._replace(headers=[*record.headers, *headers])
