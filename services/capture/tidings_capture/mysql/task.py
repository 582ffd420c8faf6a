"""The task of MariaDB's connector: a snapshot where one is due, then the log."""

import time
from dataclasses import replace
from itertools import groupby

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.config import MariaDbConfig
from tidings_capture.mysql.errors import BinlogLostError
from tidings_capture.mysql.history.topic import SchemaHistory, open_history
from tidings_capture.mysql.offset import Offset, read_offset
from tidings_capture.mysql.schema_topic import SchemaTopic
from tidings_capture.mysql.server import check_server
from tidings_capture.mysql.snapshot import EncodedRecord, Snapshot, position_of
from tidings_capture.mysql.standing import check_position
from tidings_capture.mysql.stream import Stream
from tidings_capture.mysql.transactions import TransactionTopic
from tidings_connect.task.output import Output
from tidings_connect.task.source_loop import SourceTask, StreamFigures
from tidings_connect.task.stored_positions import Position
from tidings_connect.transforms.record import SourceRecord
from tidings_service import get_logger

_log = get_logger(__name__)


class MariaDbTask(SourceTask):
    """Reads one server."""

    def __init__(self, config: MariaDbConfig, output: Output) -> None:
        self._config = config
        self._output = output
        self._topic = TransactionTopic(config)
        self._history = open_history(config)
        self._snapshot: Snapshot | None = None
        self._stream: Stream | None = None
        self._offset: Offset | None = None
        self._beat_at = 0.0
        self._former = StreamFigures()
        """Of streams that have ended."""

    def start(self, stored: Position | None) -> None:
        offset = None if stored is None else read_offset(stored)
        session = Session(self._config.endpoint)
        try:
            check_server(session)
            if offset is None or offset.in_snapshot:
                offset = self._begin(session)
            elif self._history is not None and self._history.is_missing:
                self._begin_history(session, self._history, offset)
        finally:
            session.close()
        self._offset = offset

    def _begin_history(self, session: Session, history: SchemaHistory, offset: Offset) -> None:
        """The tables as they are now, at a stored position, as Debezium's ``snapshot.mode=recovery`` has them."""
        _log.info("the schema history has no record: it begins with the tables as they are now")
        history.begin()
        for told in SchemaTopic(self._config).structures(session):
            history.structure(told, offset)

    def _begin(self, session: Session) -> Offset:
        """A new snapshot; or, without one, where the log is now."""
        tells = self._config.schema_changes or self._history is not None
        if self._config.snapshot_mode == "no_data" and tells:
            self._snapshot = Snapshot(self._config, rows=False, history=self._history)
            return self._snapshot.offset
        if self._config.snapshot_mode == "no_data":
            session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            found = position_of(session)
            return Offset(found.gtids, found.file, found.position, found.seconds)
        self._snapshot = Snapshot(self._config, direct=self._output.direct, history=self._history)
        return self._snapshot.offset

    def poll(self) -> bool:
        self._beat()
        if self._snapshot is not None:
            return self._read_snapshot(self._snapshot)
        if self._config.snapshot_mode == "initial_only":
            return True
        assert self._offset is not None
        try:
            if self._stream is None:
                self._stream = self._open_stream(self._offset)
            drained = self._stream.read()
        except BinlogLostError as error:
            if self._config.snapshot_mode != "when_needed":
                raise
            _log.warning(
                "the log does not hold the stored position: a new snapshot is taken", reason=str(error)
            )
            self._close_stream()
            self._snapshot = Snapshot(self._config, direct=self._output.direct, history=self._history)
            self._offset = self._snapshot.offset
            return False
        self._offset = self._stream.offset()
        return drained

    def _open_stream(self, offset: Offset) -> Stream:
        session = Session(self._config.endpoint)
        try:
            check_position(session, offset.gtids, str(self._config.endpoint))
        finally:
            session.close()
        return Stream(self._config, self._output, offset, self._history)

    def _read_snapshot(self, snapshot: Snapshot) -> bool:
        records = snapshot.read()
        for topic, some in groupby(
            records, lambda one: one.topic if isinstance(one, EncodedRecord) else None
        ):
            if topic is not None:
                self._output.write_encoded(
                    topic, [one.record for one in some if isinstance(one, EncodedRecord)]
                )
            else:
                for one in some:
                    assert isinstance(one, SourceRecord)
                    self._output.write(one, trusted=True)
        if not records:
            done = snapshot.offset
            self._offset = Offset(done.gtids, done.file, done.position, done.seconds)
            snapshot.close()
            self._snapshot = None
        return False

    def _beat(self) -> None:
        now = time.monotonic()
        if self._config.heartbeat_seconds and now >= self._beat_at:
            self._beat_at = now + self._config.heartbeat_seconds
            self._output.write(self._topic.heartbeat(time.time_ns()))

    def position(self) -> Position:
        assert self._offset is not None
        return self._offset.stored()

    def wait(self, seconds: float, descriptor: int) -> None:
        if self._stream is None:
            super().wait(seconds, descriptor)
        else:
            self._stream.wait(seconds, descriptor)

    def stop(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
        self._close_stream()

    def figures(self) -> StreamFigures:
        """See `SourceTask`."""
        stream, former = self._stream, self._former
        if stream is None:
            return replace(former, lag_seconds=0.0)
        return StreamFigures(
            former.transactions + stream.transactions,
            former.events + stream.events,
            stream.last_seconds * 1_000_000,
            stream.lag_seconds,
        )

    def _close_stream(self) -> None:
        self._former = self.figures()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
