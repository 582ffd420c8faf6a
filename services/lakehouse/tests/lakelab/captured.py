"""A database whose log a real capture reads into topics, which a lake takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidings_lakehouse.spark.kafka import Brokers
from tidings_lakehouse.spark.kafka_login import KafkaLogin
from tidings_stack.capture import CaptureWorker, CaptureWorkers
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.mysql import MySqlServer
from tidings_stack.waiting import wait_for

if TYPE_CHECKING:
    from lakelab.lake import Lake

AVRO = "io.confluent.connect.avro.AvroConverter"


class Captured:
    """A database of this name, its connector, and the lake."""

    def __init__(self, name: str, lake: Lake, worker: CaptureWorker) -> None:
        self.name, self.lake, self.worker = name, lake, worker
        self._brokers = Brokers(lake.session, KafkaLogin(lake.settings.kafka_access, local=False))

    def records(self, topic: str) -> int:
        """Written to a topic so far."""
        name = f"{self.name}.{topic}"
        return sum(self._brokers.ends(name.replace(".", r"\.")).get(name, {}).values())

    def read_again(self, table: str) -> None:
        """Every row of a table, by an incremental snapshot."""
        read = self.records(f"{self.name}.{table}")
        data = {"data-collections": [f"{self.name}.{table}"], "type": "INCREMENTAL"}
        path = f"/connectors/{self.name}/signals"
        status, body = self.worker.request("POST", path, {"type": "execute-snapshot", "data": data})
        assert status in (200, 202, 204), body
        wait_for("rows that are read", lambda: self.records(f"{self.name}.{table}") > read)

    def watermark(self) -> int | None:
        found = self.lake.rows(
            f"SELECT DISTINCT commit_lsn FROM tidings.watermark WHERE topic LIKE '{self.name}.%'"
        )
        assert len(found) <= 1
        return found[0][0] if found else None


@contextmanager
def captured(
    server: MariaDbServer | MySqlServer,
    name: str,
    lake: Lake,
    kafka: str,
    registry: str,
    directory: Path,
    own: Mapping[str, str],
) -> Iterator[CaptureWorker]:
    """A worker whose connector reads one database; few records a batch, so that transactions are cut.

    Args:
        own: options of the connector's.
    """
    converters = {
        f"{kind}.converter{more}": value
        for kind in ("key", "value")
        for more, value in (("", AVRO), (".schema.registry.url", registry))
    }
    config = {
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "admin",
        "database.password": server.password,
        "database.include.list": name,
        "include.schema.changes": "false",
        "topic.prefix": name,
        "provide.transaction.metadata": "true",
        "skipped.operations": "none",
        "read.only": "true",
        **converters,
        **own,
    }
    lake.settings = lake.settings.model_copy(
        update={"lakehouse_offsets_topic": f"{name}-offset", "lakehouse_max_records": 250}
    )
    with CaptureWorkers(directory, kafka) as workers:
        properties = workers.properties(name, {"offset.flush.interval.ms": "100"})
        worker = workers.start(properties)
        status, body = worker.request("PUT", f"/connectors/{name}/config", config)
        assert status == 201, body
        worker.wait_task(name, "RUNNING")
        yield worker
        worker.request("DELETE", f"/connectors/{name}")
