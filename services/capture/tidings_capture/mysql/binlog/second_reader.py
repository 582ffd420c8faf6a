"""Reads the log a second time, by a connection of its own: what lies before or behind the place of the stream."""

import time
from collections.abc import Iterator
from typing import Final

from tidings_capture.mysql.binlog.events import Event
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.client import BinlogStream
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.settings.config import MariaDbConfig

_SILENT_SECONDS: Final = 60.0
_TURN_SECONDS: Final = 0.5
"""How long the log is read before the task may look after other things."""
Events = Iterator[Event | None]
"""None: nothing for now."""


def events_behind(config: MariaDbConfig, position: LogPosition) -> Events:
    """The events behind a position, without an end; as replica number 0, whose server looks for no other of its number.

    Raises:
        BinlogLostError: the log no longer has them.
        MariaDbError: the connection is lost.
    """
    stream = BinlogStream(
        config.endpoint,
        config.flavour.request(
            position, 0, annotations=config.include_query, heartbeat_seconds=_SILENT_SECONDS / 4
        ),
    )
    reader, heard = config.flavour.events(position), time.monotonic()
    turn = heard
    try:
        while True:
            for packet in stream.packets():
                heard = time.monotonic()
                yield from reader.events(packet)
                if heard > turn + _TURN_SECONDS:
                    yield None
                    turn = time.monotonic()
            if time.monotonic() > heard + _SILENT_SECONDS:
                raise MariaDbError(f"{config.endpoint} has been silent for {_SILENT_SECONDS:.0f} seconds")
            stream.wait_alone(_TURN_SECONDS)
            yield None
    finally:
        stream.close()
