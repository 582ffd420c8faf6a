"""The events of the log as they arrive."""

import time
from collections.abc import Iterator
from typing import Final

from tidings_capture.mysql.binlog.events import Event
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.client import BinlogStream
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.settings.config import MariaDbConfig

HEARTBEAT_SECONDS: Final = 5.0
_SILENT_SECONDS: Final = 60.0


class Arrivals:
    """Reads the log from a place on.

    Raises:
        MariaDbError: from every method but `close`: the connection is lost.
        BinlogLostError: the place is gone.
    """

    def __init__(self, config: MariaDbConfig, start: LogPosition) -> None:
        self._endpoint = config.endpoint
        self._reader = config.flavour.events(start)
        self._packet: Iterator[Event] = iter(())
        """What is left of the last packet."""
        self._heard = time.monotonic()
        self._stream = BinlogStream(
            config.endpoint,
            config.flavour.request(
                start,
                config.server_id,
                annotations=config.include_query,
                heartbeat_seconds=HEARTBEAT_SECONDS,
            ),
        )

    def events(self) -> Iterator[Event]:
        """Those that are there. Who stops within gets the next one when this is called again.

        Raises:
            BinlogError: one is malformed.
            UnsupportedError: a transaction has no name where others have one.
        """
        yield from self._of_packet()
        for packet in self._stream.packets():
            self._heard = time.monotonic()
            self._packet = self._reader.events(packet)
            yield from self._of_packet()

    def _of_packet(self) -> Iterator[Event]:
        for event in self._packet:  # noqa: UP028 - `yield from` would close it when a batch ends within
            yield event

    def check_silence(self) -> None:
        """See that the server has said something lately."""
        if time.monotonic() - self._heard > _SILENT_SECONDS:
            raise MariaDbError(
                f"{self._endpoint} has been silent for {_SILENT_SECONDS:.0f} seconds, heartbeats included"
            )

    def wait(self, seconds: float, descriptor: int) -> None:
        """Wait for more."""
        self._stream.wait(seconds, descriptor)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()
