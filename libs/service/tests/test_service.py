"""Settings, logs, health pages and exit codes, as another program meets them."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from tidings_service import (
    Health,
    ServiceSettings,
    SettingsError,
    load_settings,
    serve_http,
    serve_http_in_thread,
)


class ExampleSettings(ServiceSettings):
    kafka: str
    batch_rows: int = 10


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_KAFKA", "127.0.0.1:9092")
    monkeypatch.setenv("TIDINGS_BATCH_ROWS", "7")
    settings = load_settings(ExampleSettings)
    assert (settings.kafka, settings.batch_rows) == ("127.0.0.1:9092", 7)


def test_every_wrong_setting_is_named_and_no_value_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDINGS_KAFKA", raising=False)
    monkeypatch.setenv("TIDINGS_BATCH_ROWS", "secret-word")
    with pytest.raises(SettingsError) as caught:
        load_settings(ExampleSettings)
    assert "TIDINGS_KAFKA" in str(caught.value)
    assert "TIDINGS_BATCH_ROWS" in str(caught.value)
    assert "secret-word" not in str(caught.value)


def test_ready_needs_every_component_and_at_least_one() -> None:
    health = Health()
    assert health.alive()
    assert not health.ready()
    health.set("kafka", True)
    assert health.ready()
    health.set("registry", False, "connection refused")
    assert not health.ready()
    health.set("registry", True)
    health.fail("the slot is gone")
    assert not health.alive()
    assert not health.ready()


def get(url: str) -> tuple[Any, ...]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def test_pages_show_metrics_and_health() -> None:
    registry = CollectorRegistry()
    Counter("tidings_example", "An example.", registry=registry).inc(3)
    health = Health()
    server = await serve_http(health, "127.0.0.1", 0, registry=registry)
    try:
        status, body = await asyncio.to_thread(get, f"{server.url}/metrics")
        assert status == 200
        assert "tidings_example_total 3.0" in body
        assert (await asyncio.to_thread(get, f"{server.url}/healthz"))[0] == 200
        assert (await asyncio.to_thread(get, f"{server.url}/readyz"))[0] == 503
        health.set("kafka", True, "2 partitions")
        status, body = await asyncio.to_thread(get, f"{server.url}/readyz")
        assert status == 200
        assert json.loads(body)["components"]["kafka"] == {"ok": True, "detail": "2 partitions"}
        health.fail("the slot is gone")
        status, body = await asyncio.to_thread(get, f"{server.url}/healthz")
        assert status == 503
        assert json.loads(body)["failure"] == "the slot is gone"
    finally:
        await server.close()


def test_pages_are_served_from_a_thread_and_the_port_is_free_afterwards() -> None:
    with serve_http_in_thread(Health(), "127.0.0.1", 0, registry=CollectorRegistry()) as server:
        assert get(f"{server.url}/healthz")[0] == 200
        port = server.port
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_port_that_is_taken_names_the_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SettingsError, match="cannot listen on"):
            serve_http_in_thread(Health(), "127.0.0.1", taken.getsockname()[1], registry=CollectorRegistry())


PROGRAM = """
import asyncio, os, sys
from tidings_service import TidingsError, SettingsError, configure_logging, run_service

async def main(stop):
    kind = sys.argv[1]
    if kind == "named":
        raise TidingsError("slot tidings_shop is gone", hint="take a new snapshot")
    if kind == "settings":
        raise SettingsError("TIDINGS_KAFKA: field required")
    if kind == "surprise":
        raise RuntimeError("nobody foresaw this")
    print("up", flush=True)
    await stop.wait()
    return 0

configure_logging("example", format="json")
sys.exit(run_service(main, service="example"))
"""


def start(kind: Any) -> Any:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )


@pytest.mark.parametrize(("kind", "code"), [("named", 1), ("settings", 2), ("surprise", 70)])
def test_an_error_is_one_json_line_and_an_exit_code(kind: str, code: int) -> None:
    process = start(kind)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    lines = [json.loads(line) for line in errors.splitlines()]
    assert len(lines) == 1
    assert lines[0]["service"] == "example"
    if kind == "named":
        assert lines[0]["event"] == "slot tidings_shop is gone"
        assert lines[0]["hint"] == "take a new snapshot"
    if kind == "surprise":
        (entry,) = lines[0]["exception"]
        assert (entry["exc_type"], entry["exc_value"]) == ("RuntimeError", "")  # it may be anybody's data
        assert entry["frames"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_in_order(number: Any) -> None:
    with start("wait") as process:
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.wait(timeout=60) == 0


def test_a_service_that_hangs_shows_what_it_is_doing() -> None:
    with start("wait") as process:
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGUSR1)
        lines = iter(process.stderr.readline, "")
        assert any("most recent call first" in line for line in lines)
        assert any("run_service" in line for line in lines)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_traceback_shows_neither_local_variables_nor_what_others_say(style: str) -> None:
    program = """
import sys
from tidings_service import TidingsError, configure_logging, get_logger, hide

configure_logging("example", format=sys.argv[1])
try:
    password = "hunter" + "2"
    try:
        int("a cell")
    except ValueError as error:
        raise TidingsError("our own words about " + "a secret") from error
except TidingsError:
    hide({"a secret": "${env:SECRET}"})
    get_logger("example").exception("it stopped at a secret")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, style], stderr=subprocess.PIPE, text=True, timeout=60, check=True
    )
    assert "ValueError" in done.stderr
    assert done.stderr.count("${env:SECRET}") == 2, done.stderr
    for hidden in ("a cell", "our own words about a secret", "at a secret"):
        assert hidden not in done.stderr
