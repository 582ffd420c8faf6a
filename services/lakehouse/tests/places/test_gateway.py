"""Spark's JVM: what it leaves in the temporary directory when it is killed, and what it is asked."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidings_service.disk import remove_abandoned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_START = """
import sys
from tidings_lakehouse.spark.gateway import start_gateway
print(start_gateway(heap="256m", options="", conf={"spark.master": "local[1]"}).pid, flush=True)
sys.stdin.read()
"""


def test_sparks_temporary_files_go_with_the_next_start_after_both_were_killed(tmp_path: Path) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    jvm = 0
    try:
        assert driver.stdout is not None
        jvm = int(driver.stdout.readline())
        [own] = tmp_path.glob("tidings-spark-*")
        assert f"-Djava.io.tmpdir={own}".encode() in Path(f"/proc/{jvm}/cmdline").read_bytes().split(b"\0")
        os.kill(jvm, signal.SIGSTOP)  # else it ends when it hears no more of the driver
        driver.kill()
        driver.wait(60)
        assert remove_abandoned("tidings-spark-", tmp_path) == [], "the JVM is still there"
        with os.fdopen(os.pidfd_open(jvm)) as ended:
            os.kill(jvm, signal.SIGKILL)
            assert select.select([ended], [], [], 60)[0]
        assert remove_abandoned("tidings-spark-", tmp_path) == [own]
        assert list(tmp_path.glob("tidings-spark-*")) == []
    finally:
        driver.kill()
        driver.communicate()
        if jvm and Path(f"/proc/{jvm}").exists():
            os.kill(jvm, signal.SIGKILL)


def test_java_is_asked_once_what_a_name_is(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would look for each part of each name in three hundred jars."""
    context: Any = session.sparkContext
    client, asked = context._gateway._gateway_client, []
    send = client.send_command

    def note(command: str, *rest: Any, **named: Any) -> Any:
        asked.append(command)
        return send(command, *rest, **named)

    monkeypatch.setattr(client, "send_command", note)
    first = context._jvm.org.apache.iceberg.actions.RewriteDataFiles
    assert asked
    asked.clear()
    assert context._jvm.org.apache.iceberg.actions.RewriteDataFiles is first
    assert asked == []
    assert context._jvm.java.util.ArrayList().size() == 0
