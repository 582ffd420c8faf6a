"""Kafka's storage is formatted with an id that the tool never takes for an option."""

import uuid
from pathlib import Path

import pytest

from tidings_jvm import SilentProgress
from tidings_stack import kafka
from tidings_stack.kafka import KafkaServer
from tidings_stack.ports import PortReservations
from tidings_stack.server import Place


def test_an_id_that_begins_with_a_dash_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    ports = PortReservations()
    server = KafkaServer(Place(directory=tmp_path, ports=ports, progress=SilentProgress()))
    monkeypatch.setattr(server, "_java_command", lambda *_: ["java"])
    monkeypatch.setattr(server, "_run_tool", lambda command, _message: commands.append(command))
    monkeypatch.setattr(kafka.uuid, "uuid4", lambda: uuid.UUID(bytes=b"\xfb" + bytes(15)))
    server._format()
    ports.release()
    (command,) = commands
    assert "--cluster-id=-wAAAAAAAAAAAAAAAAAAAA" in command
    assert not any(argument.startswith("-w") for argument in command)
