"""A source's history as Debezium's connectors write it: rows in the topics of tables, markers in the transaction topic."""

import json
import random
from dataclasses import dataclass, field
from typing import Any

from tidings_connect.data.subscription import TopicPartition
from tidings_envelope.gtid import Gtid

PREFIX = "shop"
MARKERS = TopicPartition(f"{PREFIX}.transaction", 0)
TABLES = {"orders": 2, "items": 1, "accounts": 1}
"""Those that are read, and how many partitions they have."""
UNREAD = "audit"
"""A table that is captured and not read."""


@dataclass(frozen=True)
class Row:
    """A change of a row."""

    table: str
    key: int
    op: str = "c"
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(f"{PREFIX}.public.{self.table}", self.key % TABLES.get(self.table, 1))


@dataclass
class History:
    """Logs of records, by partition, as (key, value) that JSON has."""

    logs: dict[TopicPartition, list[tuple[Any, Any]]] = field(default_factory=dict)
    committed: list[tuple[int, list[Row]]] = field(default_factory=list)
    """Txid and rows of the transactions, in commit order; those of tables that are not read are left out."""
    mariadb: bool = False
    _sent: list[list[tuple[TopicPartition, Any, Any]]] = field(default_factory=list)
    _commit: int = 1_000
    _txid: int = 700
    _server: int = 1

    def __post_init__(self) -> None:
        for table, count in TABLES.items():
            for number in range(count):
                self.logs[TopicPartition(f"{PREFIX}.public.{table}", number)] = []
        self.logs[MARKERS] = []

    def snapshot(self, row: Row, kind: str = "true") -> None:
        """A row that a snapshot has read."""
        source = self._source(row.table, self._commit) | {"snapshot": kind, "gtid": None}
        self._append(row.at, {"id": row.key}, self._envelope(row, source, None, op="r"))

    def commit(self, *rows: Row, begins_at: int | None = None, gtid: Gtid | None = None) -> int:
        """Commit a transaction; gives its txid.

        Args:
            begins_at: the LSN of its first row, where it began before others were committed.
            gtid: of MariaDB; by default the next one of server 1.
        """
        self._txid += 1
        if gtid is not None:
            self._server, self._txid = gtid.server, gtid.sequence
        last, lsn = self._commit, begins_at or self._commit + 1
        self._commit += 10 + len(rows)
        sent = []
        counts: dict[str, int] = {}
        for order, row in enumerate(rows, 1):
            collection = f"public.{row.table}"
            counts[collection] = counts.get(collection, 0) + 1
            reference = {"id": self._id(lsn + order), "total_order": order, "data_collection_order": 1}
            value = self._envelope(row, self._source(row.table, lsn + order, last), reference)
            if row.table != UNREAD:
                sent.append((row.at, {"id": row.key}, value))
                if row.op == "d":
                    sent.append((row.at, {"id": row.key}, None))
        sent.insert(0, (MARKERS, None, {"status": "BEGIN", "id": self._id(lsn), "ts_ms": 1}))
        listed = [{"data_collection": name, "event_count": count} for name, count in counts.items()]
        end = {"status": "END", "id": self._id(self._commit), "ts_ms": 1, "event_count": len(rows)}
        sent.append((MARKERS, None, end | {"data_collections": listed}))
        self._sent.append(sent)
        for each in sent:
            self._append(*each)
        self.committed.append((self._txid, [row for row in rows if row.table != UNREAD]))
        return self._txid

    def repeat(self, count: int, most: int | None = None) -> None:
        """The source has crashed, and writes its last transactions again; `most`: so many records of each at most."""
        for sent in self._sent[-count:]:
            for each in sent[:most]:
                self._append(*each)

    def _id(self, lsn: int) -> str:
        return f"0-{self._server}-{self._txid}" if self.mariadb else f"{self._txid}:{lsn}"

    def _source(self, table: str, lsn: int, last: int | None = None) -> dict[str, Any]:
        if self.mariadb:
            return {
                "connector": "mariadb",
                "db": "public",
                "table": table,
                "gtid": self._id(0),
                "snapshot": "false",
            }
        sequence = json.dumps([None if last is None else str(last), str(lsn)])
        names = {"connector": "postgresql", "schema": "public", "table": table, "lsn": lsn}
        return names | {"sequence": sequence, "snapshot": "false"}

    @staticmethod
    def _envelope(row: Row, source: Any, reference: Any, op: str | None = None) -> dict[str, Any]:
        whole = {"id": row.key} | row.values
        before, after = (whole, None) if row.op == "d" else (None, whole)
        return {
            "before": before,
            "after": after,
            "source": source,
            "op": op or row.op,
            "transaction": reference,
        }

    def _append(self, at: TopicPartition, key: Any, value: Any) -> None:
        self.logs[at].append((key, value))


def random_history(r: random.Random, transactions: int, *, mariadb: bool = False) -> History:
    """With rows of a first snapshot, transactions of which some are large, and crashes of the source."""
    history = History(mariadb=mariadb)
    for number in range(r.randrange(30)):
        history.snapshot(Row(r.choice(list(TABLES)), number))
    for number in range(transactions):
        size = r.randrange(200) if r.random() < 0.05 else r.randrange(1, 6)
        tables = [*TABLES, UNREAD]
        rows = [
            Row(r.choice(tables), r.randrange(50), values={"n": number * 1000 + place})
            for place in range(size)
        ]
        history.commit(*rows)
        if r.random() < 0.1:
            history.repeat(r.randrange(1, 4), r.choice([None, 1, 2, 3]))
            history.repeat(r.randrange(1, 4))
    return history
