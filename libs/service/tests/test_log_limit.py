"""Lines that repeat themselves: some of a kind in a minute, and how many were left out."""

import logging
import subprocess
import sys

import pytest

from tidings_service.log_limit import LogLimit


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[object] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.msg if isinstance(record.msg, dict) else record.getMessage())


class Lab:
    def __init__(self) -> None:
        self.now = 0.0
        self.kept = Kept()
        self.kept.addFilter(LogLimit(self.kept, 3, lambda: self.now))

    def log(self, message: object, *arguments: object, level: int = logging.WARNING) -> None:
        record = logging.LogRecord("a", level, __file__, 0, message, arguments, None)
        self.kept.handle(record)


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_only_some_lines_of_a_kind_pass_in_a_minute(lab: Lab) -> None:
    for number in range(10):
        lab.log({"event": "dead letter", "place": number})
        lab.log({"event": "dead letter", "connector": "other"})
        lab.log({"event": "dead letter"}, level=logging.INFO)
    lines = [line for line in lab.kept.lines if isinstance(line, dict)]
    assert [line["place"] for line in lines if "place" in line] == [0, 1, 2]
    assert sum("connector" in line for line in lines) == 3
    assert len(lines) == 3 + 3 + 10
    lab.now = 60.0
    lab.log({"event": "dead letter", "place": 10})
    assert lab.kept.lines[-1] == {"event": "dead letter", "place": 10, "suppressed": 7}
    assert "lines were left out: dead letter other (suppressed: 7)" in lab.kept.lines


def test_a_librarys_lines_are_of_one_kind_whatever_the_numbers(lab: Lab) -> None:
    for number in range(5):
        lab.log("broker %s:%d is down", "kafka", 9000 + number)
    assert lab.kept.lines == [f"broker kafka:{9000 + number} is down" for number in range(3)]
    lab.now = 61.0
    lab.log("broker %s:%d is down", "kafka", 7)
    assert lab.kept.lines[-1] == "broker kafka:7 is down (suppressed before: 2)"


def test_a_kind_that_does_not_come_again_is_summed_up_with_the_next_line(lab: Lab) -> None:
    for _ in range(5):
        lab.log({"event": "once"})
    lab.now = 100.0
    lab.log({"event": "another"})
    assert lab.kept.lines[-2:] == ["lines were left out: once (suppressed: 2)", {"event": "another"}]


def test_memory_is_bounded(lab: Lab) -> None:
    for number in range(5_000):
        lab.log({"event": f"of its own {number}"})
    limit = lab.kept.filters[0]
    assert isinstance(limit, LogLimit)
    assert len(limit._minutes) <= 1_000


@pytest.mark.listing
def test_every_service_has_the_limit() -> None:
    code = """
from tidings_service import configure_logging, get_logger
configure_logging("test", format="json")
for number in range(50):
    get_logger("a").warning("again", number=number)
"""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stderr.count("again") == 20
