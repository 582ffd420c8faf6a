"""The Spark session: the only module that makes one.

Everything else gets it, or a DataFrame, passed in. The Iceberg catalog `lake` is the default one, so that
``technical.orders`` is a table's whole name. With `cache-enabled=false` every statement sees what other processes have
committed (apache/iceberg#13431).
"""

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from py4j.java_gateway import JavaPackage
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidings_jvm import records_classes
from tidings_lakehouse.catalogs.conf import catalog_conf, catalog_kind, jar_configurations, more_jars
from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.spark.gateway import (
    class_path,
    executor_conf,
    is_local,
    start_gateway,
)
from tidings_lakehouse.spark.submit import submitted_conf
from tidings_lakehouse.spark.submitted import forget_gateway, is_submitted
from tidings_lakehouse.topics import CATALOG
from tidings_service import SettingsError
from tidings_service.kafka_access import SECRET_NAMES

_STOP_DEADLINE_SECONDS = 60.0
_RECORDING_DEADLINE_SECONDS = 240.0
_FUNCTIONS = "org.apache.spark.sql.functions"
_REMEMBERED_CLASSES = (
    _FUNCTIONS,
    "org.apache.spark.sql.avro.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.storage.StorageLevel",
    "PythonSQLUtils",
    "PythonUtils",
    "py4j",
)
_PACKAGES = ("java", "org", "scala")
_REMEMBERED_FUNCTIONS = (
    "array",
    "coalesce",
    "col",
    "count",
    "count_if",
    "expr",
    "lit",
    "max",
    "max_by",
    "min",
    "struct",
    "when",
)


def prepare_warehouse(settings: WarehouseSettings) -> None:
    """Make the warehouse directory, if it is one, and see that it can be written to.

    Raises:
        SettingsError: it cannot, or its catalog cannot tell two writers apart.
    """
    if catalog_kind(settings) == "hadoop" and urlsplit(settings.lakehouse_warehouse).scheme not in {
        "",
        "file",
        "hdfs",
    }:
        raise SettingsError(
            "TIDINGS_LAKEHOUSE_SPARK_CONF: a Hadoop catalog cannot be on an object store: a file cannot be renamed there"
            " in one step, so two commits at once would both hold and one would be lost",
            hint="leave spark.sql.catalog.lake.type out and name a database with TIDINGS_LAKEHOUSE_CATALOG",
        )
    directory = settings.warehouse_directory
    if directory is None:
        return
    probe = directory / f".probe-{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise SettingsError(
            f"TIDINGS_LAKEHOUSE_WAREHOUSE: {directory} cannot be written to: {error.strerror}",
            hint="give the service's user the right to write, or name another directory",
        ) from error


def create_session(
    settings: WarehouseSettings,
    name: str,
    *,
    conf: Mapping[str, str] | None = None,
    inherit: Sequence[int] = (),
) -> SparkSession:
    """Start the JVM and a session on it; one per process. Where ``spark-submit`` has started the JVM, that is taken, and what
    ``spark-submit`` was told counts more than the settings.

    Raises:
        GatewayError: the JVM cannot be started.
        SettingsError: a setting cannot be used.
    """
    submitted = submitted_conf() if is_submitted() else {}
    conf = session_conf(settings, submitted) | dict(conf or {}) | submitted
    # They log every failure of a batch, with the statement in it; the job reports it once.
    for logger in ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    process = None
    if submitted:
        conf |= executor_conf(conf, class_path(jar_configurations(settings), more_jars(settings)))
    else:
        process = start_gateway(
            heap=settings.lakehouse_heap,
            options=settings.lakehouse_java_options,
            conf=conf,
            configurations=jar_configurations(settings),
            more_jars=more_jars(settings),
            inherit=inherit,
        )
    builder = SparkSession.builder.appName(name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001
    forget_gateway()
    gateway.proc = process  # where pyspark keeps it
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    _remember(jvm)
    # Parquet and Iceberg know when a file is damaged. Without it there are half as many files, and half as many
    # processes: Hadoop runs chmod for each.
    hadoop = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    jvm.org.apache.hadoop.fs.FileSystem.getLocal(hadoop).setWriteChecksum(False)
    return session


@contextmanager
def running_session(
    settings: WarehouseSettings,
    name: str,
    *,
    conf: Mapping[str, str] | None = None,
    inherit: Sequence[int] = (),
) -> Iterator[SparkSession]:
    """A session for as long as a command needs it; see `create_session`."""
    session = create_session(settings, name, conf=conf, inherit=inherit)
    try:
        yield session
    finally:
        session.stop()


def use_in_thread(session: SparkSession) -> None:
    """Make it the session of this thread in Java, which has any that somebody had there before, or none.

    What is asked of Iceberg's Java classes finds the catalog by the thread's session until the session itself knows it.
    """
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to a thread's session
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)  # noqa: SLF001


def _remember(jvm: Any) -> None:
    """Resolve the classes that every batch asks for by the hundred, once.

    py4j asks Java for each use of a name, which in turn looks for it in every jar and imported package: a third of the
    CPU time of a small batch. What stands in an object's dictionary is not asked for.
    """
    for name in _REMEMBERED_CLASSES:
        setattr(jvm, name, getattr(jvm, name))
    for name in _PACKAGES:
        setattr(jvm, name, _Package(getattr(jvm, name)))
    functions = getattr(jvm, _FUNCTIONS)
    for name in _REMEMBERED_FUNCTIONS:
        setattr(functions, name, getattr(functions, name))
    jvm.functions = functions


class _Package:
    """A package of Java's: of each name in it Java is asked once, not for each `jvm.org.apache.iceberg.Table` four times."""

    def __init__(self, package: JavaPackage) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._package, name)
        found = _Package(found) if isinstance(found, JavaPackage) else found
        setattr(self, name, found)
        return found


def stop_gateway(session: SparkSession) -> None:
    """End the JVM of a stopped session and wait until it is gone."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(_RECORDING_DEADLINE_SECONDS if records_classes() else _STOP_DEADLINE_SECONDS)
    SparkContext._gateway = None  # noqa: SLF001 - so that another session may follow in this process
    SparkContext._jvm = None  # noqa: SLF001


def _tasks(master: str, conf: Mapping[str, str]) -> int:
    """How many tasks run at once; on a cluster as many as the settings say that executors have cores, or else two.

    Raises:
        SettingsError: a number of Spark's is not one.
    """
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", master)
    if found is not None:
        return len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1] or 1)

    def number(name: str) -> int | None:
        value = conf.get(name)
        if value is not None and not re.fullmatch(r"[1-9][0-9]*", value):
            raise SettingsError(
                f"TIDINGS_LAKEHOUSE_SPARK_CONF: {name}: {value} is not a number above 0",
                hint="say how many cores the executors have",
            )
        return None if value is None else int(value)

    cores = number("spark.cores.max")
    if cores is None:
        instances = number("spark.executor.instances")
        cores = None if instances is None else instances * (number("spark.executor.cores") or 1)
    return max(cores or 2, 2)


def _own_address(master: str) -> dict[str, str]:
    """Nobody else has to reach a driver without executors; where it has some, Spark takes the machine's address."""
    if not is_local(master):
        return {}
    return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def session_conf(settings: WarehouseSettings, submitted: Mapping[str, str] | None = None) -> dict[str, str]:
    """Every setting of Spark's, but those of executors, which need the jars.

    Args:
        submitted: what ``spark-submit`` was told, which is not in the result.

    Raises:
        SettingsError: a setting cannot be used.
    """
    conf = {
        "spark.master": settings.lakehouse_master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **_own_address(settings.lakehouse_master),
        "spark.sql.session.timeZone": "UTC",
        # PostgreSQL's names are case sensitive.
        "spark.sql.caseSensitive": "true",
        # Batches are small and planned in advance: few partitions, no replanning between stages.
        "spark.sql.shuffle.partitions": str(
            _tasks(settings.lakehouse_master, settings.spark_conf | dict(submitted or {}))
        ),
        "spark.sql.adaptive.enabled": "false",
        # The keys of a batch are sent to wherever the table's are read; the table itself is never shuffled for them.
        "spark.sql.autoBroadcastJoinThreshold": str(64 << 20),
        "spark.sql.join.preferSortMergeJoin": "false",
        "spark.locality.wait": "0",
        # Batches and the maintenance of tables share the cores.
        "spark.scheduler.mode": "FAIR",
        # Of a JSON payload that does not fit its schema nothing is taken.
        "spark.sql.json.enablePartialResults": "false",
        # Of every plan there is a text for the UI, which is off.
        "spark.sql.maxPlanStringLength": "1000",
        "spark.sql.ui.explainMode": "simple",
        # pyspark would note the place in the Python code of every single column, at three questions to Java each.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "4",
        "spark.sql.streaming.minBatchesToRetain": "20",
        # Of settings and options that Spark shows or logs.
        "spark.redaction.regex": SECRET_NAMES,
        "spark.sql.redaction.options.regex": SECRET_NAMES,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.defaultCatalog": CATALOG,
    }
    return conf | catalog_conf(settings)
