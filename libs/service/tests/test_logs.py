"""Logs of a process that sets them up more than once, as tests do which run a command in their own process."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs

from tidings_service import configure_logging, get_logger


@pytest.fixture
def _logs_as_they_were() -> Iterator[None]:
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**before)


@pytest.mark.usefixtures("_logs_as_they_were")
def test_logs_are_captured_of_a_logger_that_was_used_before_they_were_set_up_again() -> None:
    configure_logging("one", build_info=False)
    log = get_logger("a")
    log.info("kept by the logger from here on")
    configure_logging("two", build_info=False)
    with capture_logs() as said:
        log.info("hello")
    assert [line["event"] for line in said] == ["hello"]
