"""Logical messages without a transaction: each is done as soon as it is sent, like a transaction of its own."""

import time
from collections.abc import Callable

from tidings_capture.cdc.event_context import EventContext
from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_capture.postgres.streaming.logical_messages import MessagePlan
from tidings_capture.postgres.streaming.position import StreamPosition
from tidings_capture.postgres.wire.messages import LogicalMessage
from tidings_connect.data.records import Record


class LoneMessages:
    """Those of one stream.

    Args:
        resume: where the stream begins.
        position: the stream's, which they move.
        send: queues records for a topic.
    """

    def __init__(
        self,
        plan: MessagePlan,
        resume: SourceOffset,
        position: StreamPosition,
        send: Callable[[str, list[Record]], None],
    ) -> None:
        self._plan = plan
        self._position = position
        self._send = send
        self._context = EventContext()
        self._context.ts_us = resume.ts_us or time.time_ns() // 1_000

    def take(self, message: LogicalMessage, stream: EventContext, stop_lsn: int | None) -> None:
        """Send one, unless that was done before or the stream stops before it.

        Args:
            stream: of the event that the stream has converted last.
        """
        lsn, position, context = message.lsn, self._position, self._context
        if lsn < position.done_lsn or (stop_lsn is not None and lsn >= stop_lsn):
            return
        context.now_ns = stream.now_ns
        context.ts_us = stream.ts_us or context.ts_us
        context.origin, context.origin_position = stream.origin, stream.origin_position
        context.position = context.last_commit = position.commit_lsn = lsn
        records = self._plan.records(message, context)
        if records:
            self._send(self._plan.topic, records)
        position.message(lsn, context.ts_us)
