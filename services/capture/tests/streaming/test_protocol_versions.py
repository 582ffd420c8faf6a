"""Protocol versions 1 to 4 on PostgreSQL 14 to 18: streamed and prepared transactions come out as plain ones.

The same WAL is read twice: plainly, and with streaming of transactions in progress (and two-phase, where the server can)
through the assembler, whose spool is small enough to write to disk. The messages must be the same bytes in the same
order; only Relation and Type messages may be repeated.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tidings_capture.cdc.spool import Spool
from tidings_capture.postgres.client import Replication, read_url
from tidings_capture.postgres.errors import CatalogError
from tidings_capture.postgres.wire.assembler import Assembler
from tidings_capture.postgres.wire.messages import Delete, Insert, Relation, Update
from tidings_capture.postgres.wire.pgoutput import decode_message
from tidings_capture.postgres.wire.protocol import ProtocolOptions
from tidings_stack.capture import CaptureWorker as Worker

DEADLINE_SECONDS = 60
SPOOL_BYTES = 100_000
TAG = 25
SETUP = (
    "CREATE TABLE a (id int PRIMARY KEY, filler text)",
    "CREATE TABLE b (id int PRIMARY KEY, filler text)",
    "ALTER TABLE b REPLICA IDENTITY FULL",
    "CREATE PUBLICATION everything FOR ALL TABLES",
)


@pytest.fixture(scope="module", params=["14", "15", "16", "17", "18"])
def server(request: pytest.FixtureRequest, pg_server: Callable[..., Any]) -> Any:
    """A server that streams whatever is bigger than 64 kB."""
    return pg_server(request.param, logical_decoding_work_mem="64kB", max_prepared_transactions="10")


def rows(table: Any, start: Any, count: int) -> str:
    return (
        f"INSERT INTO {table} SELECT i, repeat('x', 50) FROM generate_series({start}, {start + count - 1}) i"
    )


def workload(url: str, *, prepared: Any) -> None:
    """Mixed, nested, aborted, changed in shape, prepared."""
    with (
        psycopg.connect(url, autocommit=True) as one,
        psycopg.connect(url, autocommit=True) as two,
    ):
        for statement in (
            "BEGIN", rows("a", 1, 2000),
            "SAVEPOINT s1", rows("a", 10_001, 2000), "SAVEPOINT s2", rows("a", 20_001, 2000), "ROLLBACK TO s1",
            "SAVEPOINT s3", rows("a", 30_001, 1500), "RELEASE s3",
            "SELECT pg_logical_emit_message(true, 'within', 'kept')",
        ):  # fmt: skip
            one.execute(statement)
        two.execute("SELECT pg_logical_emit_message(false, 'alone', 'between')")
        for statement in ("BEGIN", rows("b", 1, 3000), "UPDATE b SET filler = 'y' WHERE id % 3 = 0"):
            two.execute(statement)
        one.execute(
            "ALTER TABLE a ADD COLUMN more int DEFAULT 7; INSERT INTO a SELECT i, 'z', i FROM generate_series(50001, 52000) i"
        )
        two.execute("DELETE FROM b WHERE id < 1000")
        two.execute("COMMIT")
        one.execute("UPDATE a SET more = 8 WHERE id < 100")
        one.execute("COMMIT")
        for statement in (
            "BEGIN", rows("b", 100_001, 3000), "ROLLBACK",
            "BEGIN", "SAVEPOINT s", "ALTER TABLE b ADD COLUMN undone int", rows("b", 110_001, 2000), "ROLLBACK TO s",
            rows("b", 110_001, 2000), "COMMIT",
            "TRUNCATE b", rows("b", 1, 10),
        ):  # fmt: skip
            one.execute(statement)
        if prepared:
            for name, table, count, end in (
                ("small", "a (id, filler)", 5, "COMMIT"), ("big", "b", 4000, "COMMIT"),
                ("undone", "b", 4000, "ROLLBACK"), ("tiny", "b", 5, "ROLLBACK"),
            ):  # fmt: skip
                one.execute("BEGIN")
                one.execute(rows(table, 200_001 if name in {"small", "big"} else 300_001, count))
                one.execute(f"PREPARE TRANSACTION '{name}'")
                two.execute(rows("a (id, filler)", 400_001 + len(name) * 1000 + count, 3))
                one.execute(f"{end} PREPARED '{name}'")
        one.execute("SELECT pg_logical_emit_message(false, 'end', 'end')")


@pytest.fixture
def run_connector(worker: Worker) -> Iterator[Callable[..., Any]]:
    """Starts a connector, which is deleted before its database is."""
    names = []

    def start(name: str, config: Any) -> None:
        names.append(name)
        assert worker.request("PUT", f"/connectors/{name}/config", config)[0] == 201

    yield start
    for name in names:
        worker.request("DELETE", f"/connectors/{name}")


@pytest.fixture
def database(server: Any) -> Iterator[Any]:
    """A fresh database of the server's; the function reads a slot to the end."""
    name = f"v{time.monotonic_ns()}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = psycopg.conninfo.make_conninfo(server.url, dbname=name)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in SETUP:
            connection.execute(statement)
    yield url
    with psycopg.connect(server.url, autocommit=True) as connection:
        slots = connection.execute(
            "SELECT slot_name, pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s",
            [name],
        ).fetchall()
        for slot, _ in slots:
            until_free(connection, slot)
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def make_slot(url: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])


def read_to_end(url: str, slot: str, options: Any, *, limit: Any = SPOOL_BYTES) -> tuple[Any, ...]:
    """All messages up to the last one, and the spool they went through."""
    spool = Spool(limit)
    with contextlib.closing(Replication(read_url(url))) as replication:
        parameters = (*options.parameters(replication.server_version), ("publication_names", "everything"))
        replication.start(slot, "0/0", parameters)
        reader = Assembler(replication, spool) if options.assembles else replication
        found, deadline = [], time.monotonic() + DEADLINE_SECONDS
        while True:
            assert time.monotonic() < deadline, f"{len(found)} messages so far"
            messages = [data for data in reader.read(500) if data[0] == ord("w")]
            found += messages
            if any(data[TAG:].find(b"end\0\0\0\0\3end") > 0 for data in messages):
                break
            if not messages:
                reader.wait(0.05)
    return found, spool


def comparable(messages: Any) -> list[Any]:
    """Without descriptions of relations; of Begin without the header, whose LSN is that of the first change."""
    return [
        data[TAG:] if data[TAG : TAG + 1] in b"BC" else data[1:9] + data[TAG:]
        for data in messages
        if data[TAG : TAG + 1] not in b"RY"
    ]


def modes(version: Any) -> list[Any]:
    found = [ProtocolOptions("on", SPOOL_BYTES)]
    if version >= 15:
        found.append(ProtocolOptions("on", SPOOL_BYTES, two_phase=True))
        found.append(ProtocolOptions("off", SPOOL_BYTES, two_phase=True))
    if version >= 16:
        found.append(ProtocolOptions("parallel", SPOOL_BYTES))
    return found


def test_streamed_and_prepared_transactions_come_out_as_plain_ones(server: Any, database: Any) -> None:
    with psycopg.connect(database) as connection:
        version = connection.info.server_version // 10000
    options = modes(version)
    slot = f"{psycopg.conninfo.conninfo_to_dict(database)['dbname']}_"
    for number in range(len(options) + 1):
        make_slot(database, f"{slot}{number}")
    workload(database, prepared=True)
    plain, _ = read_to_end(database, f"{slot}0", ProtocolOptions())
    expected = comparable(plain)
    assert len(expected) > 14_000
    for number, mode in enumerate(options, start=1):
        found, spool = read_to_end(database, f"{slot}{number}", mode)
        assert comparable(found) == expected, mode
        assert spool.spilled_bytes > 0, mode
        assert len(spool) == 0, mode
        fits_its_relation(found)


def fits_its_relation(messages: Any) -> None:
    """Every row has the columns that the Relation message before it says."""
    widths = {}
    for data in messages:
        match decode_message(data[TAG:]):
            case Relation() as relation:
                widths[relation.oid] = len(relation.columns)
            case Insert() | Update() as row:
                assert len(row.new) == widths[row.relation_oid]
            case Delete() as row:
                assert len(row.old) == widths[row.relation_oid]
            case _:
                pass


def test_a_prepared_transaction_survives_a_restart_between_prepare_and_commit(
    server: Any, database: Any
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        if connection.info.server_version < 150000:
            with pytest.raises(CatalogError, match="needs PostgreSQL 15"):
                ProtocolOptions(two_phase=True).parameters(connection.info.server_version)
            return
        options, slot = ProtocolOptions(two_phase=True), "waiting"
        make_slot(database, slot)
        connection.execute(f"BEGIN; {rows('a', 1, 3)}; PREPARE TRANSACTION 'waits'")
        connection.execute(rows("b", 1, 3))
        (later,) = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
        with contextlib.closing(Replication(read_url(database))) as replication:
            parameters = (
                *options.parameters(replication.server_version),
                ("publication_names", "everything"),
            )
            replication.start(slot, "0/0", parameters)
            assembler = Assembler(replication, Spool(1000))
            seen, deadline = [], time.monotonic() + DEADLINE_SECONDS
            while not any(data[TAG : TAG + 1] == b"C" for data in seen):
                assert time.monotonic() < deadline
                seen += [data for data in assembler.read(100) if data[0] == ord("w")]
                assembler.wait(0.05)
            told = assembler.confirmable(int(later))
            assert told < int(later)
            replication.send_status(int(later), told)
            until_confirmed(connection, slot, told)
        until_free(connection, slot)
        connection.execute("COMMIT PREPARED 'waits'")
        connection.execute("SELECT pg_logical_emit_message(false, 'end', 'end')")
    found, _ = read_to_end(database, slot, options)
    kinds = [data[TAG : TAG + 1] for data in found if data[TAG : TAG + 1] not in b"RY"]
    # the transaction that was confirmed only in our own books is repeated, and the prepared one is whole
    assert b"".join(kinds) == b"BIIICBIIICM"


def until_confirmed(connection: Any, slot: str, lsn: int) -> None:
    _until(
        connection,
        "SELECT confirmed_flush_lsn - '0/0' >= %s FROM pg_replication_slots WHERE slot_name = %s",
        (lsn, slot),
    )


def until_free(connection: Any, slot: str) -> None:
    _until(connection, "SELECT NOT active FROM pg_replication_slots WHERE slot_name = %s", (slot,))


def _until(connection: Any, query: Any, parameters: Any) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while connection.execute(query, parameters).fetchone() != (True,):
        assert time.monotonic() < deadline, query
        time.sleep(0.02)


def test_options_that_the_server_is_too_old_for_are_refused_by_name() -> None:
    with pytest.raises(CatalogError, match=r"tidings\.streaming\.mode=parallel needs PostgreSQL 16"):
        ProtocolOptions("parallel").parameters(150002)
    with pytest.raises(CatalogError, match=r"tidings\.two\.phase=true needs PostgreSQL 15"):
        ProtocolOptions(two_phase=True).parameters(140020)


@pytest.mark.parametrize(
    ("server_version", "protocol"), [(140020, "2"), (150015, "3"), (160011, "4"), (180006, "4")]
)
def test_the_server_chooses_the_protocol(server_version: int, protocol: str) -> None:
    assert dict(ProtocolOptions().parameters(server_version)) == {
        "proto_version": protocol,
        "messages": "true",
    }
    assert dict(ProtocolOptions("on").parameters(server_version))["streaming"] == "on"


# The core through a worker.

CORE = (
    "INSERT INTO a VALUES (10, 'ten'), (11, NULL)",
    "UPDATE a SET filler = 'eleven' WHERE id = 11",
    "UPDATE a SET id = 12 WHERE id = 11",
    "DELETE FROM a WHERE id = 12",
    "UPDATE b SET filler = 'two' WHERE id = 1",
    "DELETE FROM b WHERE id = 1",
    "TRUNCATE b",
    "SELECT pg_logical_emit_message(true, 'p', 'within')",
    "ALTER TABLE a ADD COLUMN more numeric(10,2) DEFAULT 1.5",
    "; ".join((
        "BEGIN", rows("a (id, filler)", 1000, 2000), "SAVEPOINT s", rows("a (id, filler)", 5000, 2000), "ROLLBACK TO s",
        rows("b", 1000, 1000), "DELETE FROM a WHERE id < 1500", "COMMIT",
    )),
    "BEGIN; INSERT INTO a VALUES (13, 'prepared'); PREPARE TRANSACTION 'core'",
    "INSERT INTO a VALUES (14, 'before it')",
    "COMMIT PREPARED 'core'",
    "INSERT INTO b VALUES (99999, 'end')",
)  # fmt: skip


def test_the_core_through_a_worker_streamed_or_not(
    server: Any,
    database: Any,
    run_connector: Callable[..., Any],
    worker: Worker,
    connector_config: dict[str, str],
    unique_name: str,
    read_topic: Callable[[str], list[Any]],
    topic_end: Callable[[str], int],
    wait_until: Callable[..., Any],
) -> None:
    """Snapshot, every operation, markers and messages; failover slots from 17 on."""
    made = psycopg.conninfo.conninfo_to_dict(database)
    names = {"plain": f"p{unique_name}", "streamed": f"s{unique_name}"}
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("INSERT INTO a VALUES (1, 'there'); INSERT INTO b VALUES (1, 'there')")
        version = connection.info.server_version // 10000
        for kind, name in names.items():
            config = connector_config | {
                "database.hostname": str(made["host"]),
                "database.port": str(made["port"]),
                "database.dbname": str(made["dbname"]),
                "database.password": str(made["password"]),
                "topic.prefix": name,
                "slot.name": name,
                "publication.name": "everything",
                "provide.transaction.metadata": "true",
                "skipped.operations": "none",
                "slot.failover": "true",  # before 17 with a warning, as by Debezium
            }
            if kind == "streamed":
                config |= {"tidings.streaming.mode": "on", "tidings.streaming.memory.bytes": "10000"}
                config |= {"tidings.two.phase": str(version >= 15).lower()}
            run_connector(name, config)
        for name in names.values():
            worker.wait_task(name, "RUNNING")
            _until(
                connection,
                "SELECT count(*) = 1 FROM pg_replication_slots WHERE active AND slot_name = %s",
                (name,),
            )
        for statement in CORE:
            connection.execute(statement)
        for name in names.values():
            wait_until("the last row", lambda name=name: topic_end(f"{name}.public.b") >= 1006)
            wait_until("its END", lambda name=name: last_status(read_topic(f"{name}.transaction")) == "END")
        (streamed,) = connection.execute(
            "SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name = %s", [names["streamed"]]
        ).fetchone()
        assert streamed > 0
        if version >= 17:
            failover = "SELECT bool_and(failover) FROM pg_replication_slots WHERE slot_name = ANY(%s)"
            assert connection.execute(failover, [list(names.values())]).fetchone() == (True,)
        for topic in ("public.a", "public.b", "message", "transaction"):
            plain, other = (
                [seen(record, name) for record in read_topic(f"{name}.{topic}")] for name in names.values()
            )
            assert plain, topic
            # the snapshots are two: their rows differ in position and time
            if topic.startswith("public"):
                assert "r" in {r[1]["op"] for r in plain if r[1]}
                plain, other = ([r for r in side if not r[1] or r[1]["op"] != "r"] for side in (plain, other))
            assert other == plain, topic


def last_status(markers: Any) -> Any:
    return markers[-1].value["status"] if markers else None


def seen(record: Any, prefix: str) -> Any:
    """A record without names and clocks; of a BEGIN only the transaction."""
    value = record.value
    if value is None:
        return record.key, None
    value = {name: part for name, part in value.items() if name not in {"ts_ms", "ts_us", "ts_ns"}}
    if "source" in value:
        value["source"] = {n: p for n, p in value["source"].items() if p != prefix}
        return record.key, value
    if value.get("status") == "BEGIN":
        return value["id"].partition(":")[0]
    return record.key, value
