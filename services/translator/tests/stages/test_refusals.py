"""What a stage cannot start with: one clear line that names the setting, and an exit code that is not zero."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from bikes.processes import TESTS

SETTINGS = {
    "TIDINGS_KAFKA": "127.0.0.1:1",
    "TIDINGS_REGISTRY": "http://127.0.0.1:1/apis/ccompat/v7",
    "TIDINGS_DOMAIN": "bikes",
    "TIDINGS_SOURCE": "nobody",
    "TIDINGS_HTTP_PORT": "0",
    "TIDINGS_LOG_FORMAT": "json",
}


def start(stage: str, *arguments: str, **settings: str | None) -> tuple[int, str, list[dict[str, str]]]:
    """Exit code, standard output, and the errors logged."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith("TIDINGS_")}
    environment |= {n: v for n, v in {**SETTINGS, **settings}.items() if v is not None}
    command = [str(Path(sys.executable).with_name(f"tidings-{stage}")), *arguments]
    done = subprocess.run(
        command,
        env={**environment, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, [line for line in lines if line["level"] == "error"]


@pytest.mark.parametrize("stage", ["sequencer", "translator"])
def test_help_explains_every_variable(stage: str) -> None:
    code, text, _ = start(stage, "--help")
    assert code == 0
    assert "TIDINGS_KAFKA (required)\n      Kafka's bootstrap servers" in text
    assert "TIDINGS_INSTANCE (default: the host's name)" in text
    assert ("TIDINGS_MAX_BUFFERED_ROWS (default: 500000)" in text) == (stage == "sequencer")


def test_missing_and_wrong_settings_are_named() -> None:
    code, _, [error] = start("sequencer", TIDINGS_KAFKA=None, TIDINGS_MAX_BUFFERED_ROWS="few")
    assert code == 2
    assert "TIDINGS_KAFKA" in error["event"]
    assert "TIDINGS_MAX_BUFFERED_ROWS" in error["event"]


@pytest.mark.parametrize("stage", ["sequencer", "translator"])
def test_a_domain_that_does_not_load(stage: str) -> None:
    code, _, [error] = start(stage, TIDINGS_DOMAIN="no_such.domain")
    assert code == 1
    assert "no_such.domain" in error["event"]
    assert "TIDINGS_DOMAIN" in error["hint"]


def test_an_unreachable_broker() -> None:
    code, _, [error] = start("sequencer")
    assert code == 1
    assert "127.0.0.1:1" in error["event"]
    assert "TIDINGS_KAFKA" in error["hint"]


def test_an_unreachable_registry() -> None:
    code, _, [error] = start("translator")
    assert code == 1
    assert "http://127.0.0.1:1/apis/ccompat/v7" in error["event"]
    assert "TIDINGS_REGISTRY" in error["hint"]


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, [error] = start("sequencer", TIDINGS_HTTP_PORT=str(taken.getsockname()[1]))
    assert code == 2
    assert "TIDINGS_HTTP_PORT" in error["hint"]
