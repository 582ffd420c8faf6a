"""Finds rows that are gone from a table while its topic still says they exist, for an incremental snapshot to announce them.

After a loss nobody has told the topic what was deleted meanwhile: reading the tables again shows what is there, never what
is not. So the keys whose last record on the topic is not a delete are looked up in the table. As with every chunk, a key
that the stream changes between the low and the high watermark is left to the stream (see `incremental`).

What cannot be found, and is said in the log: rows whose records the topic has already removed, and keys that have no
way back to cells (`key_cells`). A topic that a transform sends the table's records to is not read.
"""

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.database import Database, TableRoutes
from tidings_capture.cdc.encoding.key_cells import NoWayBackError
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.incremental.chunks import ChunkTable
from tidings_capture.cdc.incremental.live_keys import IsDelete, LiveKeys
from tidings_capture.cdc.incremental.state import Collection, Key
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Record
from tidings_connect.errors import BrokerError, ConnectError
from tidings_connect.kafka.topic_keys import TopicKeys
from tidings_envelope.errors import DecodeError, RegistryError
from tidings_service import Retry, get_logger

if TYPE_CHECKING:
    from tidings_envelope.decode import EnvelopeDecoder

_LOOK_SECONDS: Final = 0.5
"""So long the next rows that are gone are looked for before the stream goes on."""

_log = get_logger(__name__)


class _Reader:
    """Reads what a converter has written; made when it is first needed, which in most tasks is never."""

    def __init__(self, converter: Converter) -> None:
        self._converter = converter

    @functools.cached_property
    def decoder(self) -> "EnvelopeDecoder":
        # The registry's HTTP client costs a task process 20 MB.
        from tidings_envelope.decode import EnvelopeDecoder  # noqa: PLC0415

        return EnvelopeDecoder(self._converter.registry)


class DeletedRows(ChunkTable):
    """Gives the rows that are gone from one table after the other. A chunk's end is the last compared key, in hexadecimal.

    Args:
        converters: the connector's own, for keys and values.
        keys_of: reads a topic once.
        tombstones: whether every delete has one.
    """

    def __init__(
        self,
        database: Database,
        routes: TableRoutes,
        name: str,
        converters: tuple[Converter, Converter],
        keys_of: Callable[[str], TopicKeys],
        send: Callable[[str, list[Record]], None],
        *,
        tombstones: bool,
    ) -> None:
        super().__init__(database, routes, name, send, counts=False)
        self._keys, self._values = (_Reader(converter) for converter in converters)
        self._keys_of = keys_of
        self._tombstones = tombstones
        self._live: LiveKeys | None = None
        self._failed = ""
        self._found = self._unknown = 0

    def gathered(self, collection: Collection) -> bool:
        """Whether `rows` can be asked; begins to read the topic when it is asked first.

        Raises:
            ConnectError: the topic cannot be read now.
        """
        if self._failed or (self._live is None and super().find(collection) is not None):
            return True
        try:
            if self._live is None:
                self._live = LiveKeys(self._keys_of(self.route.topic), self._is_delete())
            return self._live.ready
        except ConnectError as error:
            if error.retry is Retry.TIMED:
                raise
            self._failed = str(error)
            return True

    def find(self, collection: Collection) -> str | None:
        """See `ChunkTable.find`."""
        status = super().find(collection)
        if status is None and self._failed:
            _log.error(
                "rows that were deleted are not looked for",
                connector=self._name,
                table=collection.name,
                reason=self._failed,
            )
            status = "FAILED"
        return status

    def largest_key(self) -> Key | None:
        """Nothing that is written behind the end of the topic's reading can be gone unnoticed."""
        return []

    def rows(self, after: Key | None, maximum: Key | None, limit: int) -> list[Cells]:  # noqa: ARG002
        """The next rows that are gone, after a chunk's end; perhaps none although there are more."""
        assert self._live is not None
        until = time.monotonic() + _LOOK_SECONDS
        place = bytes.fromhex(after[0] or "") if after else b""
        found: list[Cells] = []
        while not found and time.monotonic() < until:
            keys = self._live.after(place, limit)
            if not keys:
                self.end = None
                return []
            place = keys[-1]
            found = self._gone([cells for key in keys if (cells := self._cells(key)) is not None])
        self._found += len(found)
        self.end = [place.hex()]
        return found

    def window_key(self, cells: Cells, context: EventContext) -> bytes | None:
        """See `ChunkTable.window_key`."""
        return self.route.plan.read_deleted(cells, context)[0][0]

    def records(self, cells: Cells, context: EventContext) -> list[Record]:
        """The row's delete."""
        return self.route.plan.read_deleted(cells, context)

    def leave(self) -> None:
        """See `ChunkTable.leave`; says what was found."""
        if self._live is not None:
            _log.info(
                "rows that were deleted unnoticed were looked for",
                connector=self._name,
                table=self.route.table.qualified_name,
                found=self._found,
                not_comparable=self._unknown,
                topic_begins_late_in=self._live.trimmed,
            )
            self._live.close()
        self._live, self._failed = None, ""
        self._found = self._unknown = 0
        super().leave()

    def _is_delete(self) -> IsDelete | None:
        """How a delete is told where it has no tombstone."""
        if self._tombstones:
            return None

        def told(value: bytes) -> bool:
            try:
                envelope = self._values.decoder.envelope(value)
            except DecodeError:
                return False  # no envelope: a transform has made something else of it
            return envelope is not None and envelope.op == "d"

        return told

    def _cells(self, key: bytes) -> Cells | None:
        """The cells of a key of this table; None for another table's, and for one that cannot be compared."""
        try:
            fields = self._keys.decoder.key(key)
            return None if fields is None else self.route.plan.key_cells(fields)
        except RegistryError as error:
            raise BrokerError(
                f"the keys of {self.route.topic} cannot be read: {error}", retry=Retry.TIMED
            ) from error
        except (DecodeError, NoWayBackError):
            self._unknown += 1
            return None

    def _gone(self, rows: Sequence[Cells]) -> list[Cells]:
        """Those of the rows that the table does not have."""
        if not rows:
            return []
        keys = [self.key_of(row) for row in rows]
        return [rows[number] for number in self._database.gone(self.route.table, self._columns, keys)]
