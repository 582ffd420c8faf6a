"""Writes objects, exactly once: an object's name says its topic, partition and first offset, and its rows follow from the records.

Of each partition there is a set of open objects, one for each directory. They are completed together: when one has
``flush.size`` rows, when a record's time is ``rotate.interval.ms`` after the set's first, when a schema changes, and when the set
has ``tidings.open.records`` rows. That depends on the records alone, so that whoever reads them again, after a crash at any line
here, completes the same objects and writes them over those that are there. An offset is committed when all objects of records
before it are stored; an open object is no more than memory. A task that has lost its partitions, and does not know it, writes the
same objects, too.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tidings_connect.data.schemas import same_text
from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, SinkTask, TopicPartition
from tidings_envelope.fault_points import reached
from tidings_envelope.schema import ConnectSchema
from tidings_service import get_logger
from tidings_sinks.errors import RowError
from tidings_sinks.objects.formats import Format, Rows
from tidings_sinks.objects.partitioning import safe
from tidings_sinks.objects.settings import Settings
from tidings_sinks.objects.store import Store

_log = get_logger(__name__)


@dataclass(slots=True)
class _Object:
    """An open object."""

    name: str
    schema: ConnectSchema | None
    rows: Rows
    count: int = 0


@dataclass(slots=True)
class _Set:
    """The open objects of a partition."""

    first: int
    """The offset of its first record."""
    began: int | None = None
    """That record's time, in milliseconds since the epoch."""
    count: int = 0
    objects: dict[str, _Object] = field(default_factory=dict)
    """By directory."""


@dataclass(frozen=True, slots=True)
class _Complete:
    """An object to store."""

    at: TopicPartition
    name: str
    data: bytes
    after: int
    """The offset after the last record of its set."""


class ObjectSinkTask(SinkTask):
    """One task."""

    def __init__(self, settings: Settings, form: Format, store: Store, context: SinkContext) -> None:
        self._settings, self._format, self._store, self._context = settings, form, store, context
        self._open: dict[TopicPartition, _Set] = {}
        self._complete: deque[_Complete] = deque()
        self._texts: dict[int, tuple[ConnectSchema, bytes]] = {}

    def put(self, batch: Sequence[SinkRecord]) -> None:
        """See `SinkTask.put`."""
        self._upload()
        for _, run in groupby(batch, key=lambda record: id(record.value_schema)):
            self._take(list(run))
        for one in self._open.values():
            for each in one.objects.values():
                each.rows.compact()
        try:
            self._upload()
        except RetriableError as error:
            # The batch is taken: its records must not come again.
            _log.warning("objects cannot be stored now", connector=self._context.connector, reason=str(error))

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `SinkTask.flush`."""
        self._upload()
        return {at: self._open[at].first if at in self._open else end for at, end in offsets.items()}

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.close`."""
        for at in partitions:
            self._open.pop(at, None)
        self._complete = deque(each for each in self._complete if each.at not in partitions)

    def _take(self, run: Sequence[SinkRecord]) -> None:
        """Records with one schema."""
        records = [record for record in run if record.value is not None or self._null(record)]
        rows = (
            self._format.encoded(run[0].value_schema, [record.value for record in records]) if records else []
        )
        for record, row in zip(records, rows, strict=True):
            try:
                if isinstance(row, RowError):
                    raise row
                self._add(record, row)
            except RowError as error:
                self._context.report(record, error)

    def _null(self, record: SinkRecord) -> bool:
        if not self._settings.ignores_null:
            error = RowError("the record has no value, and behavior.on.null.values is fail")
            self._context.report(record, error)
        return False

    def _add(self, record: SinkRecord, row: Any) -> None:
        settings, at = self._settings, record.original
        directory = f"{safe(record.topic)}/{settings.directory(record)}"
        moment = settings.moment(record) if settings.interval_ms > 0 else None
        found = self._open.get(at)
        if found is not None and self._ends(found, directory, record.value_schema, moment):
            self._end(at, record.offset)
            found = None
        if found is None:
            found = self._open[at] = _Set(record.offset, moment)
        one = found.objects.get(directory)
        if one is None:
            name = settings.name(directory, at, record.offset) + self._format.extension
            rows = self._format.rows(record.value_schema)
            one = found.objects[directory] = _Object(name, record.value_schema, rows)
        one.rows.add(row)
        one.count += 1
        found.count += 1
        if one.count >= settings.flush_size or found.count >= settings.open_records:
            self._end(at, record.offset + 1)

    def _ends(self, found: _Set, directory: str, schema: ConnectSchema | None, moment: int | None) -> bool:
        """Whether a record does not go into the open objects any more."""
        if (
            moment is not None
            and found.began is not None
            and moment - found.began >= self._settings.interval_ms
        ):
            return True
        one = found.objects.get(directory)
        return one is not None and one.schema is not schema and self._text(one.schema) != self._text(schema)

    def _text(self, schema: ConnectSchema | None) -> bytes:
        known = self._texts.get(id(schema))
        if known is None or known[0] is not schema:
            if len(self._texts) > 1000:
                self._texts.clear()
            if schema is None:
                return b""
            known = self._texts[id(schema)] = (schema, same_text(schema))
        return known[1]

    def _end(self, at: TopicPartition, after: int) -> None:
        """Complete the open objects of a partition."""
        for each in self._open.pop(at).objects.values():
            data = each.rows.finish(each.name)
            self._complete.append(_Complete(at, each.name, data, after))

    def _upload(self) -> None:
        while self._complete:
            first = self._complete[0]
            reached("object.complete")
            self._store.put(first.name, first.data)
            reached("object.stored")
            self._complete.popleft()
