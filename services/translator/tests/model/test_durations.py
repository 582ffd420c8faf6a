"""A TIME of MariaDB's and MySQL's as a duration in the rules: what pymysql reads of the table is what they get."""

from datetime import timedelta
from typing import Any

import pytest
from mariadb_parts import Database, connector_options
from mariadb_worker import running
from sink_targets import ask_mariadb

from tidings_domain import Row
from tidings_domain.aggregate.rows import RowPlan, time_columns
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.envelope import Envelope
from tidings_stack.mariadb import MySqlLikeServer

TIMES = (
    "838:59:59.999999",
    "-838:59:59.999999",
    "-00:00:00.000001",
    "00:00:00",
    "00:00:01",
    "25:00:00.5",
    "-01:02:03.4",
)


class Shift(Row, table="shop.shifts", key="id"):
    id: int
    worked: timedelta | None = None


@pytest.mark.stack
@pytest.mark.parametrize(
    ("mode", "with_schemas"),
    [("adaptive_time_microseconds", False), ("adaptive_time_microseconds", True), ("nanoseconds", True)],
)
@pytest.mark.parametrize("mariadb_server", ["mariadb", "mysql"])
def test_a_duration_of_any_length(
    request: pytest.FixtureRequest, mariadb_server: str, mode: str, with_schemas: bool, unique_name: str
) -> None:
    server: MySqlLikeServer = request.getfixturevalue(mariadb_server)
    database = Database(server, unique_name)
    database.run("CREATE TABLE shifts (id INT PRIMARY KEY AUTO_INCREMENT, worked TIME(6))")
    for text in TIMES:
        database.run(f"INSERT INTO shifts (worked) VALUES ('{text}')")
    config = {
        **connector_options(server, unique_name),
        "time.precision.mode": mode,
        "provide.transaction.metadata": "true",
        "value.converter.schemas.enable": str(with_schemas).lower(),
    }
    topic = f"p.{unique_name}.shifts"
    with running(config) as worker:
        worker.wait_for(lambda: len(worker.kafka.topics.get(topic, ())) == len(TIMES), "all rows")
        records = list(worker.kafka.topics[topic])
    truth = dict(ask_mariadb(server, unique_name, "SELECT id, worked FROM shifts"))
    decoder = EnvelopeDecoder(times=time_columns([Shift]))
    rows = [
        RowPlan(Shift).load(_after(decoder.envelope(value, headers)), None, {})
        for _, value, headers in records
    ]
    assert {row.id: row.worked for row in rows} == truth
    assert len(set(truth.values())) == len(TIMES)


def _after(envelope: Envelope | None) -> dict[str, Any]:
    assert envelope is not None
    assert envelope.after is not None
    return envelope.after
