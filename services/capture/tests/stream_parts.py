"""pgoutput as a server would write it, and one life of a stream that reads it: what the tests of the stream share."""

import struct
from typing import Any

from tidings_capture.cdc.tables import Table
from tidings_capture.cdc.types.conversion import ConversionError
from tidings_capture.postgres.encoding.tolerance import Tolerance, ToleranceOptions
from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_capture.postgres.settings.config import read_connector_config
from tidings_capture.postgres.streaming.stream import Stream

OID, OTHER_OID = 16385, 16390
OPTIONS = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "database.hostname": "h",
    "database.user": "u",
    "database.dbname": "d",
    "topic.prefix": "p",
    "provide.transaction.metadata": "true",
}


class CountingPlan:
    """Numbers events as a real plan does; the record's value is all that must survive a restart."""

    def change(self, data: Any, start: Any, context: Any) -> list[Any]:
        context.total_order += 1
        context.event_counts["public.a"] = context.event_counts.get("public.a", 0) + 1
        value = f"{context.tx_id} {context.total_order} {context.position} {chr(data[start])}"
        return [(b"k", value.encode(), None)]

    def truncate(self, context: Any) -> list[Any]:
        context.total_order += 1
        return [(None, f"{context.tx_id} {context.total_order} {context.position} T".encode(), None)]


class FakeRoute:
    def __init__(self) -> None:
        self.plan, self.topic, self.records = CountingPlan(), "p.public.a", 0
        self.table = Table("public", "a", OID, ())


class FakeRoutes:
    def __init__(self) -> None:
        self.by_oid = {OID: FakeRoute(), OTHER_OID: None}

    def add_relation(self, relation: Any, tx_id: Any) -> None:
        pass


class FakeSchemaChanges:
    """Tells of every relation that differs from the one before, as the real one does."""

    topic = "p.schema-changes"

    def __init__(self) -> None:
        self.columns = None

    def of_relation(self, relation: Any, context: Any) -> list[Any]:
        former, self.columns = self.columns, relation.columns
        if former in (None, self.columns):
            return []
        return [(b"s", f"{context.tx_id} {len(former)} -> {len(relation.columns)}".encode(), None)]


class Markers:
    transaction_topic = "p.transaction"

    def begin(self, context: Any) -> tuple[Any, ...]:
        return (b"t", f"{context.tx_id} BEGIN {context.position}".encode(), None)

    def end(self, context: Any) -> tuple[Any, ...]:
        value = f"{context.tx_id} END {context.position} {context.total_order}"
        return (b"t", value.encode(), context.left_out.headers())


class FakeMessages:
    topic = "p.message"

    def records(self, message: Any, context: Any) -> list[Any]:
        if message.transactional:
            context.total_order += 1
            value = f"{context.tx_id} {context.total_order} {context.position} M"
        else:
            value = f"{context.tx_id} {context.last_commit} {context.position} {context.ts_us} M"
        return [(b"m", value.encode(), None)]


def xlog(lsn: int, payload: Any) -> Any:
    return b"w" + struct.pack(">QQq", lsn, lsn, 0) + payload


def begin(xid: int, final_lsn: Any, lsn: int) -> Any:
    return xlog(lsn, b"B" + struct.pack(">QqI", final_lsn, 1_000_000, xid))


def commit(final_lsn: Any, end_lsn: Any) -> Any:
    return xlog(end_lsn, b"C\0" + struct.pack(">QQq", final_lsn, end_lsn, 1_000_000))


def insert(lsn: int, oid: Any = OID, cell: bytes = b"1") -> Any:
    return xlog(lsn, b"I" + struct.pack(">I", oid) + b"N\0\1t\0\0\0\1" + cell)


def delete(lsn: int) -> Any:
    return xlog(lsn, b"D" + struct.pack(">I", OID) + b"K\0\1t\0\0\0\0011")


def truncate(lsn: int) -> Any:
    return xlog(lsn, b"T" + struct.pack(">IBI", 1, 0, OID))


def relation(columns: Any) -> Any:
    """Relation messages stand at no LSN."""
    column = b"\1id\0" + struct.pack(">Ii", 23, -1)
    return xlog(
        0, b"R" + struct.pack(">I", OID) + b"public\0a\0d" + struct.pack(">H", columns) + column * columns
    )


def message(lsn: int, flags: int = 1) -> Any:
    return xlog(lsn, b"M" + struct.pack(">BQ", flags, lsn) + b"p\0\0\0\0\1x")


def keepalive(lsn: int, reply: int = 0) -> Any:
    return b"k" + struct.pack(">QqB", lsn, 0, reply)


# Transaction 11 began before 10 ended: its first rows are older than 10's commit. Rows at 300 share a WAL record.
HISTORY = [
    begin(10, 200, 100), insert(100), insert(120, OTHER_OID), insert(130), commit(200, 210),
    begin(11, 400, 110), insert(110), delete(140), insert(300), delete(300), insert(300), truncate(320),
    message(325), insert(330, OTHER_OID), insert(340), commit(400, 410),
    message(420, flags=0),
    begin(12, 500, 450), insert(450), message(460), commit(500, 510),
]  # fmt: skip


class Run:
    """One life of a task: what it sent."""

    def __init__(self, resume: Any = SourceOffset(done_lsn=90, lsn=90), **options: Any) -> None:  # noqa: B008 - frozen
        self.sent = []
        config = read_connector_config("c", {**OPTIONS, **options}, {}, run_id="r")
        self.stream = Stream(
            config, FakeRoutes(), Markers(), FakeMessages(), resume, self._send, FakeSchemaChanges()
        )

    def _send(self, topic: str, records: Any) -> None:
        self.sent += [(topic, value) for _, value, _ in records]

    def process(self, messages: Any, size: int = 1) -> Any:
        for start in range(0, len(messages), size):
            self.stream.process(messages[start : start + size])
        return self


def from_server(history: Any, done_lsn: Any) -> Any:
    """What a server sends to a client that asks for `done_lsn`: whole transactions that end later."""
    result, transaction = [], []
    for data in history:
        transaction.append(data)
        alone = data[25:27] == b"M\0"
        if data[25:26] == b"C" or alone:
            (end,) = struct.unpack_from(">Q", data, 1)
            if end > done_lsn or (alone and end == done_lsn):
                result += transaction
            transaction = []
    return result


# One row of a transaction is no row of its table (its cell says so), one is dropped on the way out.
LEFT_OUT = [
    begin(10, 200, 100), insert(100), insert(110, cell=b"x"), insert(120, cell=b"f"), insert(120), insert(120, cell=b"x"), insert(130, cell=b"f"), commit(200, 210),
    begin(11, 300, 220), insert(220), insert(230, cell=b"x"), insert(230), commit(300, 310),
    begin(12, 400, 320), insert(320), commit(400, 410),
]  # fmt: skip


class RunWithLosses(Run):
    """Rows with cell ``x`` cannot be converted, which is tolerated; those with ``f`` are filtered."""

    def __init__(self, resume: Any = SourceOffset(done_lsn=90, lsn=90), **options: Any) -> None:  # noqa: B008 - frozen
        super().__init__(resume, **options)
        options = ToleranceOptions(all=True)
        self.tolerance = self.stream._tolerance = Tolerance(options, "c", 0, None, None, None)
        self.stream._routes.by_oid[OID].plan = PickyPlan()

    def _send(self, topic: str, records: Any) -> None:
        for _, value, headers in records:
            if value.endswith(b" f"):
                self.stream.context.left_out.filter("public.a")
            else:
                self.sent.append((topic, value, headers))


class PickyPlan(CountingPlan):
    def change(self, data: Any, start: Any, context: Any) -> list[Any]:
        if data.endswith(b"x"):
            raise ConversionError("a cell is not of its column's type")
        ((key, value, headers),) = super().change(data, start, context)
        return [(key, value + (b" f" if data.endswith(b"f") else b""), headers)]
