"""Where signals arrive and who gets them: log, incremental snapshots, and blocking ones, which the task itself takes."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.encoding.row_format import RowFormat
from tidings_capture.cdc.incremental.observers import SignalPlan
from tidings_capture.cdc.incremental.snapshot import IncrementalSnapshots
from tidings_capture.cdc.route import Route
from tidings_capture.cdc.signals.channels import Signal, SignalChannels, signal_of_row, signal_of_texts
from tidings_capture.cdc.signals.options import SignalOptions
from tidings_connect.errors import ConnectError
from tidings_envelope.headers import repair as _repair
from tidings_service import Retry, get_logger

_log = get_logger(__name__)


class SignalDispatch:
    """A task's signals.

    Args:
        name: the connector's, for the log.
        channels: the file and the topic.
        rows: takes the signal table's rows apart, where they come by `on_route`.
        block: called with a signal that asks for a blocking snapshot.
        settle: called when signals have been dealt with that must not come again after a crash: stores the position.
    """

    def __init__(
        self,
        options: SignalOptions,
        name: str,
        channels: SignalChannels,
        rows: RowFormat | None,
        incremental: IncrementalSnapshots[Any],
        block: Callable[[Signal], None],
        settle: Callable[[], None],
    ) -> None:
        self._options = options
        self._name = name
        self._channels = channels
        self._rows = rows
        self._incremental = incremental
        self._block = block
        self._settle = settle
        self._next_poll = 0.0
        self._streamed: deque[Signal] = deque()
        self._end_batch: Callable[[], None] = lambda: None

    def attach(self, end_batch: Callable[[], None]) -> None:
        """A stream begins.

        Args:
            end_batch: ends its batch behind the row that is being converted.
        """
        self._end_batch = end_batch

    def handle_streamed(self) -> None:
        """Do what rows of the signal table ask for; called when the batch that ends with them has been sent."""
        while self._streamed:
            self.take(self._streamed.popleft())

    def poll(self, now: float, given: Iterable[Signal]) -> None:
        """Look at the channels when it is time; between batches of the stream.

        Args:
            given: signals that came through the worker.
        """
        for signal in given:
            self.take(signal)
        if not self._channels.any or now < self._next_poll:
            return
        self._next_poll = now + self._options.poll_seconds
        found = self._channels.poll()
        for signal in found:
            self.take(signal)
        if found:
            self._settle()
        self._channels.done()

    def take(self, signal: Signal) -> None:
        """Do what a signal asks for; one that cannot be done is a warning."""
        try:
            self._dispatch(signal)
        except ConnectError as error:
            if error.retry is Retry.TIMED:
                raise
            _log.warning(
                "a signal could not be dealt with", connector=self._name, signal=signal.id, reason=str(error)
            )

    def close(self) -> None:
        self._channels.close()

    def _dispatch(self, signal: Signal) -> None:
        kind = (signal.text("type") or "incremental").lower()
        match signal.type:
            case "execute-snapshot" if kind == "blocking":
                self._block(signal)
            case "execute-snapshot" if kind == "incremental":
                self._incremental.execute(signal)
            case "find-deleted-rows":
                self._incremental.execute(signal, deleted=True)
            case _repair.SIGNAL:
                self._incremental.repair(signal)
            case "stop-snapshot" if kind == "incremental":
                self._incremental.stop(signal)
            case "pause-snapshot":
                self._incremental.pause()
            case "resume-snapshot":
                self._incremental.resume()
            case "log":
                _log.info(
                    "signal", connector=self._name, signal=signal.id, message=signal.data.get("message")
                )
            case "snapshot-window-open":
                pass  # for who reads the topic: the window is open since its chunk was read
            case "snapshot-window-close":
                self._incremental.close_window(signal.id)
            case _:
                _log.warning("an unknown signal", connector=self._name, signal=signal.id, type=signal.type)

    def on_route(self, route: Route) -> None:
        """A relation was announced: the signal table's rows are listened to."""
        options = self._options
        if (
            (route.table.schema, route.table.name) == options.table
            and "source" in options.channels
            and self._rows is not None
        ):
            deleted = self._deleted if options.close_by_delete else None
            route.plan = SignalPlan(route.plan, self._rows, self._inserted, deleted)  # type: ignore[assignment]  # see observers
        self._incremental.on_table((route.table.schema, route.table.name))

    def row_inserted(self, id_: str | None, type_: str | None, data: str | None) -> None:
        """A row of the signal table was streamed, by its first three columns."""
        signal = signal_of_texts(id_, type_, data)
        if signal is not None:
            self._queue(signal)

    def row_deleted(self, id_: str | None) -> None:
        """A row of the signal table was deleted: if it opened a window, the window closes where deletes close them."""
        if self._options.close_by_delete and id_ is not None and id_.endswith("-open"):
            self._queue(Signal(id_, "snapshot-window-close"))

    def _inserted(self, cells: Cells) -> None:
        signal = signal_of_row(cells)
        if signal is not None:
            self._queue(signal)

    def _deleted(self, cells: Cells) -> None:
        id_ = cells[0]
        self.row_deleted(id_.decode() if isinstance(id_, bytes) else None)

    def _queue(self, signal: Signal) -> None:
        # Now it would ask the database within the conversion of a row, and what follows in the batch is for after it:
        # a window closes exactly at its row.
        self._streamed.append(signal)
        self._end_batch()
