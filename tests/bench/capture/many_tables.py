"""Many tables: the initial snapshot of a thousand tables of ten rows, and the first change of each after a start.

JSON without schemas, everything else by default. The snapshot is measured from the connector's creation to its last
row, none of its topics exists before; the changes, one transaction each, which were committed while the connector was
paused, from the first new record to the last: once behind the snapshot, and once more at the next start, as every topic has then
been written to by a stream. A second connector, which takes no snapshot, meets topics that do not exist.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

import psycopg
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from tests.bench.engines import DEADLINE_SECONDS, Bench, Engine, bench, check
from tests.bench.processes import cpu_seconds

from tidings_connect.kafka.topics import NOT_THERE_YET

TABLES = 1_000
ROWS = 10
_STARTS = 3
"""Of each engine with changes that wait for it."""
_AT_ONCE = 100
"""Tables created in one transaction: the server's lock table is not made for a thousand."""

_PAUSE_SECONDS = 0.5
"""Between two looks at a thousand topics: without it the looking takes much of the broker."""
TABLE = """
CREATE TABLE many.t{number} (
    id bigint PRIMARY KEY, quantity integer NOT NULL, name text NOT NULL, city text, note varchar(200),
    amount numeric(12,2) NOT NULL DEFAULT 0, active boolean NOT NULL DEFAULT true, created_at timestamptz NOT NULL)
"""
INSERT = """
INSERT INTO many.t{number} SELECT i, i, 'name ' || i, 'city ' || i, 'a note', i / 10.0, true, now()
  FROM generate_series({first}, {last}) AS i
"""


@dataclass(frozen=True)
class Figure:
    """What one measurement took."""

    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:7.1f} s, {self.cpu_seconds:5.1f} CPU s, {self.seconds * 1000 / TABLES:5.1f} ms a table"


def run(rows: int, *, debezium: bool = True) -> None:
    """Print the snapshot's time, and those of the first changes, of topics that exist and of new ones."""
    with bench(debezium=debezium) as made:
        _create(made)
        for place, engine in enumerate(made.engines):
            records = Records(made, engine, "many")
            figure = _snapshot(made, engine, records)
            print(f"  {engine.name:9} snapshot of {TABLES:,} tables          {figure}", flush=True)
            for start, told in enumerate(("after the snapshot", "at the next start")):
                engine.pause("many")
                figure = _changes(made, engine, "many", records, _STARTS * place + start)
                print(f"  {engine.name:9} first changes {told:18} {figure}", flush=True)
            _end(made, engine, "many")
            records = Records(made, engine, "new")
            engine.put("new", _config(made, engine, "new", "no_data"))
            engine.pause("new")
            figure = _changes(made, engine, "new", records, _STARTS * place + 2)
            print(f"  {engine.name:9} first changes, new topics        {figure}", flush=True)
            _end(made, engine, "new")


def _create(made: Bench) -> None:
    with psycopg.connect(made.database) as connection:
        connection.execute("CREATE SCHEMA many")
        for start in range(0, TABLES, _AT_ONCE):
            for number in range(start, min(start + _AT_ONCE, TABLES)):
                _execute(connection, TABLE, number)
                _execute(connection, INSERT, number, first=1, last=ROWS)
            connection.commit()
        connection.execute("CREATE PUBLICATION many FOR TABLES IN SCHEMA many")


def _execute(connection: psycopg.Connection, statement: str, number: int, **values: int) -> None:
    connection.execute(statement.format(number=number, **values))  # type: ignore[arg-type]  # ours


def _config(made: Bench, engine: Engine, name: str, mode: str) -> dict[str, str]:
    config = made.config(engine, name, "json", snapshot_mode=mode, publication_name="many")
    del config["table.include.list"]
    return config | {"schema.include.list": "many"}


def _end(made: Bench, engine: Engine, name: str) -> None:
    engine.delete(name)
    made.drop_slot(f"bench_{engine.name}_{name}")


def _snapshot(made: Bench, engine: Engine, records: "Records") -> Figure:
    start, cpu = time.monotonic(), cpu_seconds(engine.pid)
    engine.put("many", _config(made, engine, "many", "initial"))
    records.wait(TABLES * ROWS)
    return Figure(time.monotonic() - start, cpu_seconds(engine.pid) - cpu)


def _changes(made: Bench, engine: Engine, name: str, records: "Records", turn: int) -> Figure:
    """One new row in every table, committed while the connector is paused."""
    at = ROWS + 1 + turn
    with psycopg.connect(made.database, autocommit=True) as connection:
        for number in range(TABLES):
            _execute(connection, INSERT, number, first=at, last=at)
    before = records.count()
    engine.resume(name)
    records.wait(before + 1)
    start, cpu, first = time.monotonic(), cpu_seconds(engine.pid), records.count()
    records.wait(before + TABLES)
    seconds, cpu = time.monotonic() - start, cpu_seconds(engine.pid) - cpu
    share = TABLES / (before + TABLES - first)  # what had come before the first look
    return Figure(seconds * share, cpu * share)


class Records:
    """How many records the topics of one connector hold."""

    def __init__(self, made: Bench, engine: Engine, name: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": made.stack.kafka.bootstrap})
        self._prefix = f"{engine.name}_{name}.many."

    def count(self) -> int:
        """Their end offsets; a topic that has just been made and has no leader yet counts nothing."""
        topics = [t for t in self._admin.list_topics(timeout=10).topics if t.startswith(self._prefix)]
        return sum(self._ends(topics)) if topics else 0

    def wait(self, count: int) -> None:
        """Until there are `count` records."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (found := self.count()) < count:
            check(deadline, f"{self._prefix}* to hold {count} records (at {found})")
            time.sleep(_PAUSE_SECONDS)

    def _ends(self, topics: Iterable[str]) -> Iterable[int]:
        asked = self._admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest() for topic in topics})  # type: ignore[no-untyped-call]
        for future in asked.values():
            try:
                yield future.result().offset
            except KafkaException as error:
                if error.args[0].code() not in NOT_THERE_YET:
                    raise
