"""A connector on a real capture worker, whose topics the job reads; and the audit and the repair of what it wrote."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

from tidings_lakehouse.cli import main
from tidings_lakehouse.spark.kafka import Brokers
from tidings_lakehouse.spark.kafka_login import KafkaLogin
from tidings_stack.capture import CaptureWorker, CaptureWorkers, avro_options, json_options
from tidings_stack.waiting import wait_for

if TYPE_CHECKING:
    from lakelab.lake import Lake

JSON = json_options()
"""Options of a connector that writes JSON with schemas, as Debezium does where nobody chooses."""


@contextmanager
def capturing(lake: Lake, directory: Path, name: str, config: dict[str, str]) -> Iterator[CaptureWorker]:
    """A worker whose connector runs, in Avro if nothing else is said, and with transactions; the lake follows the offsets that it
    stores.

    Args:
        name: of the connector; its topics have it before them.
    """
    settings = lake.settings
    told = {"topic.prefix": name, "provide.transaction.metadata": "true"}
    avro = {} if "value.converter" in config else avro_options(str(settings.registry))
    lake.settings = settings.model_copy(update={"lakehouse_offsets_topic": f"{name}-offset"})
    with CaptureWorkers(directory, settings.kafka) as workers:
        worker = workers.start(workers.properties(name, {"offset.flush.interval.ms": "100"}))
        status, body = worker.request("PUT", f"/connectors/{name}/config", config | told | avro)
        assert status == 201, body
        worker.wait_task(name, "RUNNING")
        yield worker
        worker.request("DELETE", f"/connectors/{name}")


def records_on(lake: Lake, topic: str) -> int:
    """Written to a topic so far."""
    brokers = Brokers(lake.session, KafkaLogin(lake.settings.kafka_access, local=False))
    return sum(brokers.ends(topic.replace(".", r"\.")).get(topic, {}).values())


class Auditor:
    """Runs `audit` and `repair` as somebody beside the job; the job runs while they wait, and only then.

    Args:
        meanwhile: changes captured tables; called while they wait, each time before the job.
    """

    def __init__(
        self,
        lake: Lake,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        *,
        database: str,
        source: str,
        worker: str,
        meanwhile: Callable[[], None],
    ) -> None:
        self._capsys = capsys
        warehouse = str(lake.session.conf.get("spark.sql.catalog.lake.warehouse"))
        for name, value in {
            "TIDINGS_LAKEHOUSE_WAREHOUSE": unquote(urlsplit(warehouse).path),
            "TIDINGS_LAKEHOUSE_AUDIT_DATABASE": database,
            "TIDINGS_LAKEHOUSE_WORKER": worker,
            "TIDINGS_SOURCE": source,
        }.items():
            monkeypatch.setenv(name, value)

        topic = f"{source}.transaction"

        def job(_: float) -> None:
            before = records_on(lake, topic)
            meanwhile()
            wait_for("what has happened meanwhile", lambda: records_on(lake, topic) > before)
            lake.drain()

        waiting = SimpleNamespace(monotonic=time.monotonic, sleep=job)
        for module in ("auditing.audit", "repairing.repair"):
            monkeypatch.setattr(f"tidings_lakehouse.{module}.time", waiting)

    def run(self, command: str, table: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Exit code, and what is said of a table."""
        self._capsys.readouterr()
        code = main([command, "--table", table, "--pause", "0", "--wait", "300", "--json", *arguments])
        told = self._capsys.readouterr()
        lines = [
            line for line in told.out.splitlines() if line.startswith('{"table"')
        ]  # behind the job's log
        assert len(lines) == 1, told.err
        (line,) = lines
        return code, json.loads(line)
