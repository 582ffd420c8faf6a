"""What goes on beside a task's snapshot and log: signals, incremental snapshots, and notifications."""

from collections.abc import Mapping
from typing import Any

from tidings_capture.cdc.database import TableId
from tidings_capture.cdc.incremental.snapshot import IncrementalSnapshots
from tidings_capture.cdc.signals.channels import Signal, SignalChannels
from tidings_capture.cdc.signals.dispatch import SignalDispatch
from tidings_capture.cdc.signals.notifications import INITIAL, KEY, VALUE, Notifier
from tidings_capture.cdc.snapshots.blocking import BlockingSnapshots
from tidings_capture.mysql.binlog.cells import Cells
from tidings_capture.mysql.incremental.chunks import MariaDbChunks
from tidings_capture.mysql.incremental.given_keys import MariaDbGivenKeys
from tidings_capture.mysql.incremental.session import ChunkSession
from tidings_capture.mysql.incremental.watermarks import MariaDbWatermarks
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.schemas.catalog import tables
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_capture.mysql.streaming.observers import Observers
from tidings_capture.mysql.streaming.stream import Stream
from tidings_connect.task.output import Output
from tidings_connect.transforms.record import SourceRecord

_SOON_SECONDS = 0.02


class Beside:
    """Of one task. Errors are those of `cdc.incremental.snapshot` and `cdc.signals.dispatch`."""

    def __init__(self, config: MariaDbConfig, output: Output) -> None:
        options = config.signals
        self._config = config
        self._output = output
        self._session = ChunkSession(config.endpoint)
        self._given: list[Signal] = []
        self._stream: Stream | None = None
        self.notifier = Notifier(options, config.prefix, self._write_notification)
        self.observers = Observers(options.table if "source" in options.channels else None)
        self.incremental: IncrementalSnapshots[Cells] = IncrementalSnapshots(
            options,
            config.prefix,
            self._captured,
            MariaDbWatermarks(options, self._session, config.flavour),
            MariaDbChunks(config, self._session, output, self.observers),
            None,
            self.notifier,
            MariaDbGivenKeys(config, self._session, output, self.observers, self._is_between),
        )
        self.blocking = BlockingSnapshots(config.prefix, self._captured, options.enclose)
        self._dispatch = SignalDispatch(
            options,
            config.prefix,
            SignalChannels(options, output.consumer, config.prefix),
            None,
            self.incremental,
            self.blocking.ask,
            output.settle,
        )
        self.observers.signals = self._dispatch
        self.observers.altered = self.incremental.read_again

    @property
    def patience(self) -> float:
        """How long may be waited, in seconds, where nothing arrives."""
        return _SOON_SECONDS if self.incremental.reads_soon else 1.0

    def tell(self, type_: str, data: Mapping[str, str]) -> None:
        """Tell how far a snapshot is that is not an incremental one."""
        self.notifier.tell(INITIAL, type_, data)

    def give(self, signal: Signal) -> None:
        """A signal came over REST."""
        self._given.append(signal)

    def attach(self, stream: Stream, offset: Offset) -> None:
        """A stream begins."""
        self._stream = stream
        self._dispatch.attach(stream.end_batch)
        self.incremental.attach(stream, offset.incremental)

    def poll(self, now: float) -> bool:
        """Between batches of the stream; whether something was done."""
        self._dispatch.handle_streamed()
        busy = self.incremental.poll()
        given, self._given = self._given, []
        self._dispatch.poll(now, given)
        return busy or bool(given)

    def close(self) -> None:
        """Let go of the server, and of the channels."""
        self.incremental.close()
        self._dispatch.close()
        self._session.close()

    def _is_between(self) -> bool:
        return self._stream is not None and self._stream.between_transactions

    def _captured(self) -> list[TableId]:
        session = self._session.get()
        found = [(one.database, one.name) for one in tables(session)]
        return self._config.tables.order(name for name in found if self._config.captures(*name))

    def _write_notification(self, value: dict[str, Any]) -> None:
        key = {"id": value["id"]}
        topic = self._config.signals.notification_topic
        self._output.write(SourceRecord(topic, None, KEY, key, VALUE, value, None, []))
