"""Options for the servers' JVMs come from one variable of ours, never from somebody's own for Java."""

from pathlib import Path

import pytest

from tidings_jvm import SilentProgress, find_java
from tidings_stack.connect import ConnectServer
from tidings_stack.kafka import KafkaServer
from tidings_stack.ports import PortReservations
from tidings_stack.server import Place


def test_servers_get_the_options_that_the_environment_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDINGS_STACK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 '-Dname=two words'")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx1m")
    ports = PortReservations()
    place = Place(directory=tmp_path, ports=ports, progress=SilentProgress())
    try:
        for server in (KafkaServer(place), ConnectServer(place, bootstrap="127.0.0.1:1")):
            server._java = find_java()
            command = list(server._command())
            assert {"-XX:TieredStopAtLevel=1", "-Dname=two words"} < set(command)
            assert "JAVA_TOOL_OPTIONS" not in server._environment()
    finally:
        ports.release()
