"""Heartbeats of a stream: a record on the heartbeat topic, ``heartbeat.action.query``, and the round trip that it takes."""

import time
from collections.abc import Callable

from tidings_capture.cdc.encoding.markers import MarkerPlan
from tidings_capture.cdc.heartbeat_lag import HeartbeatLag
from tidings_capture.postgres.server.database import PostgresDatabase
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.wal.task_guard import TaskGuard
from tidings_connect.data.records import Record


class Heartbeats:
    """Polled between batches; does nothing without ``heartbeat.interval.ms``.

    Args:
        send: queues records for a topic.
    """

    def __init__(
        self,
        config: ConnectorConfig,
        database: PostgresDatabase,
        guard: TaskGuard,
        markers: MarkerPlan,
        send: Callable[[str, list[Record]], None],
    ) -> None:
        self._seconds, self._acts = config.heartbeat_seconds, bool(config.heartbeat_action)
        self._database = database
        self._guard = guard
        self._markers = markers
        self._send = send
        self._next = 0.0
        self.lag = HeartbeatLag()

    def begin(self) -> None:
        """A stream begins."""
        self._next = time.monotonic() + self._seconds

    def poll(self, now: float, received_lsn: int) -> None:
        """Send one when it is time.

        Args:
            received_lsn: how far the stream has come.
        """
        if self._seconds and now >= self._next:
            self._next = now + self._seconds
            if self._acts and not self._guard.stream_only:
                self._database.run_heartbeat_action()
            if not self.lag.waiting and (end := self._database.wal_end()) is not None:
                self.lag.begin(end)
            self._send(self._markers.heartbeat_topic, [self._markers.heartbeat(time.time_ns())])
        self.lag.reached(received_lsn)
