"""The topic of transactions: when each begins and ends, and how many events it had. Pure."""

from typing import Any

from tidings_capture.mysql.encoding.records import Numbers, commit_headers
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_connect.transforms.record import SourceRecord
from tidings_envelope import semantic
from tidings_envelope.java.hash_order import java_hash_order


class TransactionTopic:
    """Writes the records of transactions, and heartbeats."""

    def __init__(self, config: MariaDbConfig) -> None:
        self._topic = config.topics.transaction
        self._heartbeats = config.topics.heartbeat
        self._prefix = config.prefix

    def begin(self, numbers: Numbers, milliseconds: int) -> SourceRecord:
        """A transaction begins."""
        return self._record(
            numbers, milliseconds, {"status": "BEGIN", "event_count": None, "data_collections": None}
        )

    def end(self, numbers: Numbers, milliseconds: int) -> SourceRecord:
        """It ends."""
        names = java_hash_order(list(numbers.by_table))
        counts = [{"data_collection": name, "event_count": numbers.by_table[name]} for name in names]
        return self._record(
            numbers, milliseconds, {"status": "END", "event_count": numbers.total, "data_collections": counts}
        )

    def _record(self, numbers: Numbers, milliseconds: int, fields: dict[str, Any]) -> SourceRecord:
        value = {**fields, "id": numbers.id, "ts_ms": milliseconds}
        key = {"id": numbers.id}
        return SourceRecord(
            self._topic,
            None,
            semantic.TRANSACTION_KEY,
            key,
            semantic.TRANSACTION_VALUE,
            value,
            None,
            commit_headers(numbers.commit),
        )

    def heartbeat(self, now_ns: int) -> SourceRecord:
        """A heartbeat."""
        key, value = {"serverName": self._prefix}, {"ts_ms": now_ns // 1_000_000}
        return SourceRecord(
            self._heartbeats, None, semantic.HEARTBEAT_KEY, key, semantic.HEARTBEAT_VALUE, value, None, []
        )
