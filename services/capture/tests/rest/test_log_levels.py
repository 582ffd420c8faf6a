"""Log levels by logger, set while the worker runs: names, children, aliases, and the way to a task's process."""

import logging
import os
from collections.abc import Iterator

import pytest

from tidings_connect.log_levels import LogLevels
from tidings_connect.task.channel import STOP, Request, encode_request
from tidings_connect.task.main import Pipes


@pytest.fixture
def loggers() -> Iterator[list[str]]:
    """A tree of loggers, forgotten afterwards."""
    names = ["levels", "levels.a", "levels.a.b", "levelsother"]
    for name in names:
        logging.getLogger(name)
    yield names
    for name in names:
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_a_level_goes_down_the_tree_and_no_further(loggers: list[str]) -> None:
    told = []
    levels = LogLevels(told.append)
    assert levels.set("levels", "DEBUG") == ["levels", "levels.a", "levels.a.b"]
    assert levels.level("levels.a.b")["level"] == "DEBUG"
    assert logging.getLogger("levelsother").level == logging.NOTSET
    assert levels.all()["levels"]["last_modified"] > 1_600_000_000_000
    assert levels.level("no.such.logger") is None
    assert told == [levels.changed] == [{"levels": "DEBUG"}]


def test_names_of_debezium_and_kafka_connect_stand_for_ours() -> None:
    before = logging.getLogger("tidings_capture").level
    levels = LogLevels()
    try:
        for stands_for_ours in ("io.debezium.connector.postgresql", "tidings_capture"):
            assert {"tidings_capture", "tidings_connect"} <= {*levels.set(stands_for_ours, "TRACE")}
        assert levels.level("tidings_connect")["level"] == levels.level("tidings_capture")["level"] == "TRACE"
        assert "tidings_capture" not in levels.set("tidings_connect", "TRACE")
    finally:
        for name in levels.set("tidings_capture", "INFO"):
            logging.getLogger(name).setLevel(before)


def test_a_task_is_told_levels_and_goes_on(loggers: list[str]) -> None:
    read, write = os.pipe()
    with os.fdopen(read) as stdin, os.fdopen(write, "wb", buffering=0) as supervisor:
        pipes = Pipes(stdin.fileno())
        supervisor.write(encode_request(Request(log_levels={"levels.a": "ERROR"})) + b"\n")
        assert not pipes.stop_requested()
        assert logging.getLogger("levels.a.b").level == logging.ERROR
        supervisor.write(STOP)
        assert pipes.stop_requested()
