"""From a real database to a reader of events, with nothing written by hand: `init`, capture, both stages, the client; and
what `record` takes from the topics gives the same events in a test of the author's.
"""

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import make_dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from bikes.processes import StageProcess, wait_for

from tidings_client import Events, event
from tidings_domain import load_domain
from tidings_domain.starting.cli import main as init
from tidings_domain.testing import Rehearsal
from tidings_domain.testing.recording import decode_recording
from tidings_service.kafka_access import KafkaAccess
from tidings_stack.capture import CaptureWorkers
from tidings_translator.cli import record as record_cli
from tidings_translator.kafka.topics import Topics

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SCHEMA = """
create table customers (id bigint primary key, name text not null, born date, note text);
create table orders (id bigint primary key, customer_id bigint not null references customers, total numeric(10, 2),
    placed timestamptz not null default now(), woken timestamp, tags text[], doc jsonb, trace text);
create table order_lines (order_id bigint references orders on delete cascade, no int, sku uuid not null, primary key (order_id, no));
insert into customers values (3, 'Ann', '1990-01-02');
insert into orders values (1, 3, 5);
"""
ORDER = f"""
insert into orders values (2, 3, 12.50, now(), now(), '{{a,b}}', '{{"a": 1}}', '{PARENT}');
insert into order_lines values (2, 1, '6f1c2a9e-3f4b-5d6c-8e7f-0a1b2c3d4e5f');
"""


@pytest.fixture
def package(unique_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a package that a test writes into `tmp_path`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield unique_name
    for name in [name for name in sys.modules if name.partition(".")[0] == unique_name]:
        del sys.modules[name]


@pytest.mark.timeout(900)
def test_from_a_database_to_a_reader_and_back_into_a_test(
    pg_database: str,
    kafka_bootstrap: str,
    registry_url: str,
    package: str,
    tmp_path: Path,
    make_stage: Callable[..., StageProcess],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with psycopg.connect(pg_database) as connection:
        connection.execute(SCHEMA)
    assert init(["--database", pg_database, "--name", package, "--into", str(tmp_path)]) == 0
    importlib.invalidate_caches()
    database = urlsplit(pg_database)
    settings = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": str(database.hostname),
        "database.port": str(database.port),
        "database.user": str(database.username),
        "database.password": str(database.password or ""),
        "database.dbname": database.path.lstrip("/"),
        "plugin.name": "pgoutput",
        "topic.prefix": package,
        "slot.name": package,
        "publication.name": package,
        "provide.transaction.metadata": "true",
        "decimal.handling.mode": "string",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }
    plain = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
    stages = {"TIDINGS_DOMAIN": package, "PYTHONPATH": str(tmp_path)}
    created = make_dataclass("OrderCreated", [("id", int)], frozen=True)
    reader = event(f"{package}.order-created", version=1)(created)
    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        worker = workers.start(workers.properties(f"{package}-connect", plain))
        status, answer = worker.request("PUT", "/connectors/orders/config", settings)
        assert status in (200, 201), answer
        worker.wait_task("orders", "RUNNING")
        sequencer = make_stage("sequencer", **stages, TIDINGS_TRACE_COLUMN="trace")
        translator = make_stage("translator", **stages)
        with psycopg.connect(pg_database) as connection:
            connection.execute(ORDER)
        with psycopg.connect(pg_database) as connection:
            connection.execute("update orders set total = 13 where id = 2")
            connection.execute("insert into orders (id, customer_id) values (0, 3)")
        received = _read(reader, sequencer, translator, kafka_bootstrap, registry_url, package)
        worker.request("DELETE", "/connectors/orders")
        assert worker.stop() == 0
    assert sorted(one.data.id for one in received) == [0, 2], "order 1 is a snapshot's, and no news"
    [second] = [one for one in received if one.data.id == 2]
    assert second.attributes["traceparent"] == PARENT

    file = tmp_path / "orders.json"
    for name, value in (("KAFKA", kafka_bootstrap), ("DOMAIN", package), ("SOURCE", package)):
        monkeypatch.setenv(f"TIDINGS_{name}", value)
    monkeypatch.delenv("TIDINGS_REGISTRY", raising=False)
    assert record_cli.main([str(file), "--mask", "public.customers.name"]) == 0
    assert f"{file}: 2 transactions" in capsys.readouterr().out
    recording = decode_recording(file.read_bytes())
    assert {table: row.get("name", "")[:7] for table, row in recording.given} == {
        "public.customers": "masked-"
    }
    told = Rehearsal(load_domain(package)).replay(file)
    published = {one.event_id: one.payload for transaction in told for one in transaction.published}
    assert published == {one.id: {"id": one.data.id} for one in received}, "with the ids that were published"
    assert [change.op for change in recording.transactions[1].rows] == ["u", "c"]

    assert record_cli.main([str(file)]) == 1
    assert "is there already" in capsys.readouterr().err
    assert record_cli.main([str(tmp_path / "b.json"), "--from", "1"]) == 1
    assert "transaction 1 is not on the topics" in capsys.readouterr().err
    assert json.loads(file.read_text())["source"] == package


def _read(
    reader: type, sequencer: StageProcess, translator: StageProcess, kafka: str, registry: str, group: str
) -> list:
    """Both orders' events, once the translator has made their topic."""
    wait_for(
        lambda: f"{group}.order-created.v1" in Topics(KafkaAccess(kafka)).partitions(),
        "the business topic",
        seconds=300,
        every=0.3,
        alive=(sequencer, translator),
    )
    found = []
    with Events(kafka=kafka, registry=registry, group=group, events=[reader], idle_seconds=90) as events:
        for received in events:
            found.append(received)
            if len(found) == 2:
                events._idle_seconds = 0.1
    return found
