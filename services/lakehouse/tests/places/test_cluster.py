"""The job, submitted to a standalone cluster of Spark with two workers, of which one is killed with its executor amid a batch."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest
from lakelab.apart import in_s3, job_apart
from lakelab.rows import event_headers, order

from tidings_jvm import PlainProgress
from tidings_lakehouse.cli import main
from tidings_stack.spark import SparkMaster, SparkWorker
from tidings_stack.stack import Stack

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

    from tidings_stack.s3 import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(600)]

CHANGES = 40
PLACED: dict[str, Any] = {
    "type": "record",
    "name": "Placed",
    "fields": [{"name": "order_id", "type": "long"}],
}


@pytest.fixture
def cluster() -> Iterator[tuple[SparkMaster, list[SparkWorker]]]:
    """A master and two workers of one core."""
    with Stack(members=(), progress=PlainProgress(print)) as stack:
        master = stack.add(SparkMaster)
        workers = [
            stack.add(
                lambda place, name=name: SparkWorker(place, master=master.url, name=name)  # type: ignore[misc]
            )
            for name in ("spark-worker-1", "spark-worker-2")
        ]
        yield master, workers


def with_executors(worker: SparkWorker) -> list[int]:
    """Process ids of a worker and of what it has started."""
    assert worker.pid is not None
    children = Path(f"/proc/{worker.pid}/task").glob("*/children")
    started = [int(pid) for file in children for pid in file.read_text().split()]
    assert started
    return [*started, worker.pid]


def submit(master: SparkMaster, directory: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The command that `submit-files` prints, up to the file that it runs, with more options of Spark's own."""
    assert main(["submit-files", str(directory)]) == 0
    program, *_, properties, file, command = shlex.split(capsys.readouterr().out)
    assert [Path(properties).name, Path(file), command] == ["spark.conf", directory / "lakehouse.py", "run"]
    options = {
        "--master": master.url,
        "--total-executor-cores": "2",
        "--executor-memory": "512m",
        "--conf": "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "--properties-file": properties,
    }
    return [
        program,
        *(part for option in options.items() for part in option),
    ]


@pytest.mark.long
def test_a_worker_is_killed_amid_a_batch_and_every_record_is_there_once(
    topics: Topics,
    lake: Lake,
    s3: S3Server,
    pg_database: str,
    cluster: tuple[SparkMaster, list[SparkWorker]],
    unique_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    master, workers = cluster
    monkeypatch.setenv("STREAMS", "technical business")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    table = topics.table(f"{unique_name}.public.o_{unique_name}")
    event = f"{unique_name}.placed-{unique_name}.v1"
    topics.create(event)
    schema = topics.register(f"{event}-value", PLACED)

    for number in range(CHANGES):
        table.change("c", order(number), 10, 20 + number)
    for number in range(0, CHANGES, 4):
        table.change("u", order(number, "changed"), 100, 110 + number)
        table.change("d", {"id": number + 1}, 200, 210 + number)
    for number in range(CHANGES):
        topics.produce(event, b"1", topics.encode(schema, {"order_id": number}), event_headers(f"e{number}"))
    topics.flush()
    with psycopg.connect(pg_database) as database:
        user, password = database.info.user, database.info.password
    parts = urlsplit(pg_database)
    conf = {
        **in_s3(s3, unique_name),
        "lakehouse_catalog": f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}",
        "lakehouse_catalog_user": user,
        "lakehouse_catalog_password": password,
        "lakehouse_small_records": "0",  # in the driver alone
    }
    conf["lakehouse_spark_conf"] += (
        ";spark.driver.host=127.0.0.1;spark.scheduler.minRegisteredResourcesRatio=1.0"
    )
    directory = tmp_path / "cluster"
    directory.mkdir()
    for name, value in conf.items():
        monkeypatch.setenv(f"TIDINGS_{name.upper()}", value)
    with job_apart(
        conf,
        directory,
        submit(master, tmp_path / "submit", capsys),
        kafka=topics.bootstrap,
        registry=topics.registry,
        source=unique_name,
    ) as job:
        assert job.executors() == 2
        job.drain_killing("log:", *with_executors(workers[1]))
        assert not workers[1].running
        assert job.executors() == 1
        lake.streams = ["technical", "business"]
        lake.drain()
        for name, columns, count in [
            (table.table, "id, note", 30),
            (f"{table.table}_log", "offset, op", 70),
            (f"business.placed_{unique_name}_v1", "ce_id, order_id", CHANGES),
        ]:
            statement = f"select {columns} from {name} order by 1, 2"
            rows = job.rows(statement)[1]
            assert len(rows) == count, name
            assert rows == [list(row) for row in lake.rows(statement)], name
