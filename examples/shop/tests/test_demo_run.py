"""The demo's course: when it calls the pipeline drained, and the whole of it as a person starts it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidings_shop.demo import cli, run
from tidings_shop.demo.pipeline import Options
from tidings_shop.demo.run import Demo
from tidings_shop.errors import DemoError
from tidings_shop.traffic import TrafficSummary
from tidings_stack import members
from tidings_stack.errors import PackagesUnavailableError
from tidings_stack.mariadb import is_published
from tidings_stack.pipeline.figures import Figures, Lag, State
from tidings_stack.pipeline.screen import Stopped
from tidings_stack.provision import debian
from tidings_stack.provision.debian import unpacked_mysql

COMMAND = Path(sys.executable).with_name("tidings-demo")


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, ...]]:
    """A demo whose services all say that they have nothing left to do; nothing is started."""
    monkeypatch.setattr(run, "_STABLE_SECONDS", 0.3)
    monkeypatch.setattr(run, "_STABLE_BUT_OFF_SECONDS", 0.8)
    monkeypatch.setattr(run, "_DRAIN_SECONDS", 2.0)
    figures = Figures()
    demo = Demo(Options(tmp_path), figures, threading.Event())
    for part in figures.parts:
        part.state = State.READY
    for name in ("sequencer", "translator", "lakehouse"):
        setattr(figures, f"{name}_lag", Lag(records=0))
    figures.business_by_version.update({("OrderPlaced", 1): 3, ("OrderPlaced", 2): 3, ("OrderPaid", 1): 1})
    figures.technical.sample(5, 0.0)
    figures.lake_by_table.update(
        {"technical.orders": 9, "technical.orders_log": 5, "business.order_placed_v1": 7}
    )
    yield demo, figures
    demo.close()


SUMMARY = TrafficSummary(1, facts=Counter({"OrderPlaced": 3, "OrderPaid": 1}))


def seconds_to_drain(demo: Demo) -> tuple[float, tuple[str, ...]]:
    start = time.monotonic()
    remarks = demo._drain(SUMMARY)
    return time.monotonic() - start, remarks


def test_a_pipeline_that_has_told_everything_is_drained(demo: tuple[Any, ...]) -> None:
    seconds, remarks = seconds_to_drain(demo[0])
    assert remarks == ()
    assert 0.3 <= seconds < 0.8


def test_an_event_that_does_not_come_is_waited_for_a_while(demo: tuple[Any, ...]) -> None:
    demo[1].business_by_version["OrderPlaced", 2] = 2
    seconds, remarks = seconds_to_drain(demo[0])
    assert remarks == (), "the comparison is what says so"
    assert 0.8 <= seconds < 2.0


def test_a_batch_that_the_lakehouse_has_yet_to_write_is_waited_for_a_while(demo: tuple[Any, ...]) -> None:
    demo[1].lake_by_table["technical.orders_log"] = 4
    seconds, remarks = seconds_to_drain(demo[0])
    assert remarks == ()
    assert 0.8 <= seconds < 2.0


@pytest.mark.parametrize(
    ("lag", "words"), [(Lag(records=7), "7 records to go"), (Lag(), "no figures from lakehouse")]
)
def test_a_pipeline_that_does_not_drain_is_a_problem(demo: tuple[Any, ...], lag: Lag, words: str) -> None:
    demo[1].lakehouse_lag = lag
    seconds, (remark,) = seconds_to_drain(demo[0])
    assert words in remark
    assert seconds >= 2.0


def test_waiting_ends_when_somebody_stops_or_the_subscriber_fails(demo: tuple[Any, ...]) -> None:
    one, figures = demo
    figures.lakehouse_lag = Lag()
    one._tap = type("Tap", (), {"error": "the demo's subscriber stopped"})()
    with pytest.raises(DemoError, match="subscriber stopped"):
        one._drain(SUMMARY)
    one._stop.set()
    with pytest.raises(Stopped):
        one._drain(SUMMARY)


def processes_in(directory: Path) -> list[str]:
    """Command lines of processes that work in the directory, or mention it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            here = (entry / "cwd").readlink()
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if here.is_relative_to(directory) or str(directory) in line:
            found.append(line)
    return found


def start(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(COMMAND), "--directory", str(directory), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"TIDINGS_FAILPOINT": "somebody's own", "COLUMNS": "100"},
    )


def test_a_machine_without_mysqls_packages_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDINGS_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(members, "prefetch", lambda *_, **__: None)
    monkeypatch.setattr(debian, "APT_HELPER", tmp_path / "nowhere")
    monkeypatch.setattr(cli, "stop_on_signals", lambda _stop: None)
    assert cli.main(["--source", "mysql", "--directory", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "this machine has no apt" in printed.out + printed.err
    assert "--source" in printed.out + printed.err, "what else can be done"


def test_a_machine_without_mariadb_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(members, "is_published", lambda: False)
    monkeypatch.setattr(cli, "stop_on_signals", lambda _stop: None)
    assert cli.main(["--source", "mariadb", "--directory", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "published for Linux on x86-64 only" in printed.out + printed.err
    assert "PostgreSQL" in printed.out + printed.err


def output_and_looks(demo: subprocess.Popen[str]) -> tuple[str, dict[str, str]]:
    """What a demo that stays up has printed, and what the commands print to which it points, in a shell that knows nothing."""
    assert demo.stdout is not None
    lines: list[str] = []
    shown: dict[str, str] = {}
    for line in demo.stdout:
        lines.append(line)
        name, _, command = line.strip().partition("  ")
        shown[name] = command.strip()
        if name == "is all well":
            break
    looked = {}
    for name in ("the lake", "is it the same", "is all well"):
        if name in shown:  # else the demo has ended
            text = f"{shown['first of all']}\n{shown[name]}"
            done = subprocess.run(
                ["/bin/sh", "-c", text],
                env={"PATH": os.defpath},
                capture_output=True,
                check=False,
                text=True,
                timeout=120,
            )
            looked[name] = done.stdout + done.stderr
    demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate(timeout=120)
    return "".join([*lines, rest]), looked


@pytest.mark.e2e
@pytest.mark.stack
@pytest.mark.spark
@pytest.mark.timeout(1500)
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    ("source", "title", "seconds"),
    [
        ("postgresql", "PostgreSQL", "8"),
        pytest.param("mariadb", "MariaDB", "4", marks=pytest.mark.long),
        pytest.param("mysql", "MySQL", "4", marks=pytest.mark.long),
    ],
)
def test_the_whole_demo(tmp_path: Path, source: str, title: str, seconds: str) -> None:
    if source == "mariadb" and not is_published():
        pytest.skip("MariaDB's binaries are published for Linux on x86-64 only")
    if source == "mysql":
        try:
            unpacked_mysql()
        except PackagesUnavailableError as error:
            pytest.skip(f"there is no MySQL: {error}")
    more = ("--source", source) if source != "postgresql" else ()
    demo = start(tmp_path, "--seconds", seconds, "--rate", "30", "--seed", "3", "--keep", *more)
    try:
        output, looked = output_and_looks(demo)
    finally:
        demo.kill()
    print(output, looked)
    assert demo.returncode == 0
    assert "0 wrong" in looked["is it the same"]
    assert "EUR" in looked["the lake"]
    assert "0 errors" in looked["is all well"]
    assert "first business event" in output
    assert f"expected: the orders in {title};" in output
    assert "every order is one event of each version, and the lake equals the database" in output
    assert "✗" not in output
    assert processes_in(tmp_path) == []


@pytest.mark.e2e
@pytest.mark.stack
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_demo_that_is_stopped_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    demo = start(tmp_path)
    assert demo.stdout is not None
    try:
        for line in demo.stdout:
            if "capture" in line:
                break
        assert processes_in(tmp_path)
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=120)
    finally:
        demo.kill()
    assert demo.returncode == 130
    assert processes_in(tmp_path) == []
