"""What `spark-submit` is given; that it runs the job is in `test_cluster`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings_lakehouse.cli import main
from tidings_lakehouse.spark.gateway import is_ours


def test_the_files_say_how_the_jvm_starts_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", str(tmp_path / "lake"))
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_MASTER", "spark://127.0.0.1:7077")
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_HEAP", "3g")
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_CATALOG_PASSWORD", "not-to-be-seen")
    monkeypatch.setenv(
        "TIDINGS_LAKEHOUSE_SPARK_CONF", "spark.sql.catalog.lake.s3.secret-access-key=not-to-be-seen"
    )
    assert main(["submit-files", str(tmp_path / "a b")]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        f"spark-submit --master spark://127.0.0.1:7077 --properties-file '{tmp_path}/a b/spark.conf'"
    )
    conf = (tmp_path / "a b" / "spark.conf").read_text()
    assert "spark.driver.memory=3g\n" in conf
    assert "-Dorg.apache.avro.limits.bytes.maxLength\\=" in conf
    assert "iceberg-spark-runtime" in conf
    assert "not-to-be-seen" not in conf + said


def test_a_jvm_of_spark_submit_inherits_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the secrets of Kafka's login cannot be read from one."""
    assert is_ours("local[2]")
    assert not is_ours("spark://127.0.0.1:7077")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not is_ours("local[2]")
