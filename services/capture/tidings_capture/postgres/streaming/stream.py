"""The stream: pgoutput messages in, records out, position kept. The hot loop of capture.

`Stream.process` takes a batch of CopyData messages and sends what they become; it does no I/O but the producer's queue
and, for a Relation message, the catalog. Whoever has to act at a row, as a signal asks, ends the batch behind it
(`Stream.end_batch`) and acts when `process` has returned. Position: after every message `position()` is a `SourceOffset` from which a
restart repeats nothing and misses nothing, given that everything sent has been delivered.

Resuming: PostgreSQL repeats whole transactions. Of a transaction that was sent in part (`SourceOffset.in_transaction`)
the rows that are done are converted again, so that the numbering stays what it was, and their records are dropped.
"""

import struct
import time
from collections.abc import Callable, Iterator
from typing import Final

from tidings_capture.cdc.encoding.markers import MarkerPlan
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.left_out import LeftOut
from tidings_capture.cdc.types.conversion import ConversionError
from tidings_capture.postgres.client import parse_keepalive
from tidings_capture.postgres.encoding.routes import Routes
from tidings_capture.postgres.encoding.tolerance import Tolerance
from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_capture.postgres.server.ddl_trigger import MESSAGE_PREFIX
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.streaming.bad_messages import add_position, cut_short
from tidings_capture.postgres.streaming.logical_messages import MessagePlan
from tidings_capture.postgres.streaming.lone_messages import LoneMessages
from tidings_capture.postgres.streaming.position import StreamPosition
from tidings_capture.postgres.streaming.resume import Resumption
from tidings_capture.postgres.streaming.schema_changes import SchemaChangePlan
from tidings_capture.postgres.streaming.state import Phase, following, phase_at_begin
from tidings_capture.postgres.streaming.streamed import StreamedTransactions
from tidings_capture.postgres.wire.messages import (
    Begin,
    Commit,
    LogicalMessage,
    Origin,
    Relation,
    Truncate,
    Type,
)
from tidings_capture.postgres.wire.pgoutput import TAG, XLOG_DATA, DecodeError, decode_message
from tidings_connect.data.records import Record
from tidings_connect.errors import ConnectError
from tidings_service import Retry

Send = Callable[[str, list[Record]], None]

_U32: Final = struct.Struct(">I").unpack_from
_U64: Final = struct.Struct(">Q").unpack_from
_LSN_AND_OID: Final = struct.Struct(">xQ17xI").unpack_from
"""The start of an XLogData message with a row: its LSN, and behind the tag the relation's oid."""
_KEEPALIVE: Final = ord("k")
_OID: Final = 26
_COMMIT: Final = ord("C")
_EVENTS: Final = frozenset(b"TM")
"""Events of a transaction beside rows."""
_ROWS: Final = frozenset(b"IUD")


class Stream:
    """Converts one task's stream; for one thread.

    Args:
        resume: where to go on; everything up to it has been delivered.
        send: queues records for a topic, in order.
        tolerance: what becomes of rows that cannot be converted; None: they are errors.
        left_out: where `send` notes the events of a transaction that do not come out.
    """

    def __init__(
        self,
        config: ConnectorConfig,
        routes: Routes,
        markers: MarkerPlan,
        messages: MessagePlan,
        resume: SourceOffset,
        send: Send,
        schema_changes: SchemaChangePlan | None = None,
        tolerance: Tolerance | None = None,
        left_out: LeftOut | None = None,
    ) -> None:
        self._routes = routes
        self._messages = messages
        self._schema_changes = schema_changes
        self._tolerance = tolerance
        self._markers = markers if config.conversion.provide_transaction_metadata else None
        self._send = send
        self._truncates = "t" not in config.conversion.skipped_operations
        self.context = self._context = EventContext(left_out)
        self.recent_transactions = StreamedTransactions(resume.tx_id)
        self._phase = Phase.BETWEEN
        self._position = StreamPosition(resume, metadata=self._markers is not None)
        self._resumption = Resumption(resume)
        self._lone = LoneMessages(messages, resume, self._position, send)
        self._change_sent = False
        """Whether the message that was converted last sent a change of a schema."""
        self._stop_lsn: int | None = None
        self._pending: Iterator[bytes] = iter(())
        self._rest: list[bytes] = []
        self.received_lsn = resume.done_lsn
        self.transactions = 0
        self.events = 0
        self.reply_requested = False
        self.caught_up = False
        """Whether the last message was a keepalive between transactions: nothing waits on the server."""

    @property
    def between_transactions(self) -> bool:
        return not self._phase.in_transaction

    def has_reached(self, lsn: int) -> bool:
        """Whether everything that was committed before an LSN has been converted."""
        return self.between_transactions and self.received_lsn >= lsn

    @property
    def busy(self) -> bool:
        """Whether the last batch held a transaction: what it was committed at says how far behind the task is."""
        return not self.caught_up and self._context.ts_us > 0

    @property
    def last_commit_ts_us(self) -> int:
        """When the last transaction seen was committed, microseconds since the Unix epoch; 0 for none."""
        return self._context.ts_us

    def stop_before(self, lsn: int) -> None:
        """Leave out every transaction whose commit is at `lsn` or later; `reached_stop` tells when that is all."""
        self._stop_lsn = lsn

    @property
    def stops(self) -> bool:
        """Whether there is an LSN to stop before."""
        return self._stop_lsn is not None

    @property
    def reached_stop(self) -> bool:
        """Whether every transaction before the LSN given to `stop_before` has been converted."""
        if self._stop_lsn is None:
            return False
        return self._phase is Phase.STOPPED or (
            self._phase is Phase.BETWEEN and self.received_lsn >= self._stop_lsn
        )

    @property
    def exact(self) -> bool:
        """Whether a restart from `position` repeats nothing, not even the BEGIN of a transaction without a row."""
        return self._phase is not Phase.SENDING or self._position.knows_row

    def position(self) -> SourceOffset:
        """From where a restart goes on, when all that was sent has been delivered."""
        if self._phase is Phase.SENDING:
            return self._position.within(self._context)
        return self._position.between()

    def advance(self) -> None:
        """Nothing captured is left on the server up to `received_lsn`: a restart need not read it again."""
        # Before a stop what was received may have been left out: the slot must not be confirmed past it.
        if self._stop_lsn is None and self.caught_up:
            self._position.advance(self.received_lsn)

    def end_batch(self) -> None:
        """End the batch behind the message that is being converted; `process` gives the rest back."""
        self._rest = list(self._pending)

    def process(self, messages: list[bytes]) -> list[bytes]:  # noqa: C901, PLR0912 - the hot loop: a call per row costs more
        """Convert and send a batch; the messages that are left, when it was ended before.

        Raises:
            DecodeError: a message is malformed; names its tag, the offset in it, and its LSN.
            ConversionError: a row cannot be converted; names its column and LSN.
            ConnectError: a row of a relation that was not announced.
        """
        context, by_oid, rows, send = self._context, self._routes.by_oid, _ROWS, self._send
        sending, position = Phase.SENDING, self._position
        context.now_ns = time.time_ns()
        self.caught_up = False
        last: bytes | None = None
        changed_behind: bytes | None = None
        data = b""
        self._pending = pending = iter(messages)
        while True:
            try:
                for data in pending:
                    tag = data[TAG] if data[0] == XLOG_DATA else 0
                    if tag in rows:
                        last = data
                        if self._phase is not sending and not self._is_sent(data):
                            continue
                        lsn, oid = _LSN_AND_OID(data)
                        try:
                            route = by_oid[oid]
                        except KeyError as error:
                            raise ConnectError(
                                "pgoutput sent a row of a relation it has not announced"
                            ) from error
                        if route is None:
                            continue
                        context.position = lsn
                        records = route.plan.change(data, TAG, context)
                        route.records += len(records)
                        send(route.topic, records)
                    elif tag:
                        self._other(data)
                        if self._change_sent:
                            self._change_sent, position.change_follows, changed_behind = False, True, last
                        if tag == _COMMIT:  # rows before it need no position of their own
                            last = None
                        elif tag in _EVENTS and self._phase.in_transaction:
                            last = data
                    else:
                        self._control(data)
                break
            except ConversionError as error:
                add_position(error, data)
                self._leave_out(error, data)  # and go on behind it
            except DecodeError as error:
                add_position(error, data)
                raise
            except (IndexError, struct.error) as error:
                if len(data) > _OID + 4:
                    raise
                raise cut_short(data) from error
        rest, self._rest = self._rest, []
        if rest:
            messages = messages[: -len(rest)]
        if last is not None and self._phase.in_transaction:
            position.change_follows &= last is changed_behind
            position.note_rows(messages, last)
        self.events += len(messages)
        return rest

    def _leave_out(self, error: ConversionError, data: bytes) -> None:
        if self._tolerance is None or data[TAG] not in _ROWS:
            raise error
        route = self._routes.by_oid[_U32(data, _OID)[0]]
        assert route is not None
        repeated = self._phase is Phase.REPEATING  # it has been left out before
        if not repeated:
            self._tolerance.row(error, data[TAG:], route.table, route.topic)
        if self._markers is not None:
            self._context.fail(route.table.qualified_name, known=repeated)

    def _is_sent(self, data: bytes) -> bool:
        """Whether a row of another transaction than one that is new as a whole is to be sent."""
        if self._phase is not Phase.REPEATING:
            return not self._phase.leaves_out
        if self._is_new(data):
            return True
        self._repeat(data)
        return False

    def _is_new(self, data: bytes) -> bool:
        """Whether a row of the transaction that was sent in part has not been sent yet."""
        if not self._resumption.is_new(_U64(data, 1)[0]):
            return False
        self._phase = following(self._phase, Phase.SENDING)
        self._send_held()
        return True

    def _send_held(self) -> None:
        held = self._resumption.release()
        if held:
            assert self._schema_changes is not None
            self._send(self._schema_changes.topic, held)

    def _repeat(self, data: bytes) -> None:
        # Converted for the numbering alone: a plan counts the events that a row becomes.
        route = self._routes.by_oid.get(_U32(data, _OID)[0])
        if route is not None:
            (self._context.position,) = _U64(data, 1)
            self._context.repeats = True
            try:
                route.plan.change(data, TAG, self._context)
            finally:
                self._context.repeats = False

    def _control(self, data: bytes) -> None:
        if data[0] != _KEEPALIVE:
            raise ConnectError("the server sent an unknown message on the replication stream")
        wal_end, reply = parse_keepalive(data)
        self.reply_requested |= reply
        if not self._phase.in_transaction:
            self.received_lsn = max(self.received_lsn, wal_end)
            self.caught_up = True

    def _other(self, data: bytes) -> None:
        message = decode_message(data[TAG:])
        match message:
            case Begin():
                self._begin(message, _U64(data, 1)[0])
            case Commit():
                self._commit(message)
            case Relation():
                self._relation(message)
            case Origin():
                self._context.from_origin(message.name, message.commit_lsn)
            case Truncate():
                self._truncate(message, data)
            case LogicalMessage() if message.transactional:
                self._message(message, data)
            case LogicalMessage():
                self._lone.take(message, self._context, self._stop_lsn)
                self.received_lsn = max(self.received_lsn, self._position.done_lsn)
            case Type():
                pass  # the catalog tells more
            case _:
                # A slot keeps two_phase for good; without the assembler its transactions would fall apart.
                raise ConnectError(
                    f"the server sent a {type(message).__name__} message, which nothing asked for",
                    hint="the slot was used with tidings.two.phase=true: set it again",
                    retry=Retry.NEVER,
                )

    def _begin(self, begin: Begin, lsn: int) -> None:
        context, position = self._context, self._position
        self.recent_transactions.recent.append(begin.xid)
        position.begin()
        resume = self._resumption.of(begin.xid)
        phase = phase_at_begin(
            commit_lsn=begin.final_lsn,
            done_lsn=position.done_lsn,
            stop_lsn=self._stop_lsn,
            resumes=resume is not None,
        )
        self._phase = following(self._phase, phase)
        context.begin(begin.xid, begin.commit_ts_us, position.commit_lsn)
        context.position = lsn
        if phase.leaves_out:
            return
        self._resumption.begin(begin.xid)
        if phase is Phase.REPEATING:
            assert resume is not None
            context.resume(resume.left_out)
        elif self._markers is not None:
            self._send(self._markers.transaction_topic, [self._markers.begin(context)])

    def _commit(self, commit: Commit) -> None:
        context, position = self._context, self._position
        former = self._phase
        self._phase = following(former, Phase.STOPPED if former is Phase.BEHIND_STOP else Phase.BETWEEN)
        position.change_follows = False
        self.received_lsn = max(self.received_lsn, commit.end_lsn)
        if former.leaves_out:
            return
        self._send_held()
        context.position = commit.end_lsn
        if self._markers is not None:
            self._send(self._markers.transaction_topic, [self._markers.end(context)])
        self._resumption.end()
        self.transactions += 1
        position.commit(commit.end_lsn, context.tx_id, commit.commit_ts_us)

    def _truncate(self, message: Truncate, data: bytes) -> None:
        if not self._truncates or self._phase.leaves_out:
            return
        context = self._context
        (context.position,) = _U64(data, 1)
        repeated = self._phase is Phase.REPEATING and not self._is_new(data)
        for oid in message.relation_oids:
            route = self._routes.by_oid.get(oid)
            if route is None:
                continue
            records = route.plan.truncate(context)
            if not repeated:
                route.records += len(records)
                self._send(route.topic, records)

    def _message(self, message: LogicalMessage, data: bytes) -> None:
        if self._phase.leaves_out:
            return
        context = self._context
        context.position = message.lsn
        repeated = self._phase is Phase.REPEATING and not self._is_new(data)
        changes = self._schema_changes if message.prefix == MESSAGE_PREFIX else None
        if changes is not None:
            topic, records = changes.topic, changes.of_message(message, context)
        else:
            topic, records = self._messages.topic, self._messages.records(message, context)
        if records and not repeated:
            self._send(topic, records)

    def _relation(self, relation: Relation) -> None:
        changes = self._schema_changes
        if changes is not None:
            records = changes.of_relation(relation, self._context)
            if self._phase is Phase.REPEATING:
                self._resumption.hold(records)
            elif records and not self._phase.leaves_out:
                self._send(changes.topic, records)
                self._change_sent = True
        self._routes.add_relation(relation, self._context.tx_id)
