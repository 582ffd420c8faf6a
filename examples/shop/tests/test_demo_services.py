"""A service of the demo is watched, says why it ended, and does not outlive the demo."""

import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tidings_shop.demo.shown import shop_figures
from tidings_stack.errors import PipelineError
from tidings_stack.pipeline import pages
from tidings_stack.pipeline.feed import take_metrics
from tidings_stack.pipeline.pages import Samples
from tidings_stack.pipeline.services import Service, installed

PYTHON = Path(sys.executable).name


def service(directory: Path, program: str) -> Service:
    return Service(
        "sleeper", [PYTHON, "-c", program], environment={}, url="http://127.0.0.1:1", directory=directory
    )


def wait_for(path: Path, deadline_seconds: float = 10.0) -> str:
    deadline = time.monotonic() + deadline_seconds
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"nothing in {path.name}"
        time.sleep(0.02)
    return path.read_text()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def check_until_it_fails(service: Service, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        service.check()
        time.sleep(0.02)


def test_a_service_that_ends_by_itself_is_a_failure_with_the_end_of_its_log(tmp_path: Path) -> None:
    sleeper = service(tmp_path, "import sys; print('cannot reach the broker', file=sys.stderr); sys.exit(3)")
    sleeper.check()  # not started yet: fine
    sleeper.start()
    try:
        with pytest.raises(PipelineError, match=r"sleeper ended with code 3(?s:.*)cannot reach the broker"):
            check_until_it_fails(sleeper)
    finally:
        sleeper.stop()


def test_a_service_is_asked_to_end(tmp_path: Path) -> None:
    program = (
        "import signal, pathlib, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path('ended').write_text('politely'), sys.exit()))\n"
        "pathlib.Path('begun').write_text('x')\n"
        "time.sleep(60)"
    )
    sleeper = service(tmp_path, program)
    sleeper.start()
    wait_for(tmp_path / "begun")
    sleeper.check()
    sleeper.stop()
    assert (tmp_path / "ended").read_text() == "politely"
    sleeper.stop()
    sleeper.check()  # stopped by us: no failure


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_services_die_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    program = f"""
import pathlib, time
from tidings_stack.pipeline.services import Service
sleeper = Service("sleeper", [{PYTHON!r}, "-c",
    "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(60)"],
    environment={{}}, url="", directory=pathlib.Path({str(tmp_path)!r}))
sleeper.start()
time.sleep(60)
"""
    demo = subprocess.Popen([sys.executable, "-c", program])
    try:
        pid = int(wait_for(tmp_path / "pid"))
        assert is_alive(pid)
    finally:
        os.kill(demo.pid, signal.SIGKILL)
        demo.wait()
    deadline = time.monotonic() + 10
    while is_alive(pid):
        assert time.monotonic() < deadline, "the service outlived the demo"
        time.sleep(0.02)


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(PipelineError, match="tidings-nothing is not installed"):
        installed("tidings-nothing")


def test_pages_that_do_not_answer_are_not_there(tmp_path: Path) -> None:
    assert not service(tmp_path, "").is_ready()
    assert not pages.answers("http://127.0.0.1:1/")
    assert pages.read_metrics("http://127.0.0.1:1") is None
    assert pages.read_json("http://127.0.0.1:1") is None
    with pytest.raises(PipelineError, match=r"PUT http://127\.0\.0\.1:1/x failed"):
        pages.put_json("http://127.0.0.1:1/x", {})


def test_what_is_put_waits_for_workers_that_are_finding_each_other() -> None:
    answers = [409, 409, 200, 400]

    class Worker(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(answers.pop(0))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Worker) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/connectors/shop/config"
            pages.put_json(url, {})
            assert answers == [400]
            with pytest.raises(PipelineError, match="refused with 400"):
                pages.put_json(url, {})
        finally:
            server.shutdown()
            thread.join()


METRICS = """
# TYPE tidings_capture_records counter
tidings_capture_records_total{connector="shop",topic="shop.public.orders"} 12.0
tidings_capture_records_total{connector="shop",topic="shop.public.customers"} 30.0
tidings_capture_records_total{connector="shop",topic="shop.transaction"} 99.0
# TYPE tidings_capture_lag_seconds gauge
tidings_capture_lag_seconds{connector="shop"} 0.25
# TYPE tidings_consumer_lag_records gauge
tidings_consumer_lag_records{stage="sequencer",topic="shop.public.orders",partition="0"} 4.0
tidings_consumer_lag_records{stage="sequencer",topic="shop.transaction",partition="0"} 3.0
tidings_consumer_lag_records{stage="translator",topic="tidings.shop.change-sets",partition="0"} 2.0
# TYPE tidings_dead_letters counter
tidings_dead_letters_total{stage="sequencer",reason="malformed"} 1.0
# TYPE tidings_lakehouse_rows counter
tidings_lakehouse_rows_total{table="technical.orders_log"} 8.0
tidings_lakehouse_rows_total{table="business.order_placed_v1"} 5.0
# TYPE tidings_lakehouse_lag_records gauge
tidings_lakehouse_lag_records{topic="shop.public.orders"} 4.0
tidings_lakehouse_lag_records{topic="shop.transaction"} NaN
# TYPE tidings_lakehouse_freshness_seconds gauge
tidings_lakehouse_freshness_seconds{table="technical.orders_log"} 2.5
tidings_lakehouse_freshness_seconds{table="business.order_placed_v1"} 1.5
"""


def test_figures_are_taken_from_the_services_metrics() -> None:
    figures, samples = shop_figures(), Samples(METRICS)
    everybody = dict.fromkeys(("capture", "sequencer", "translator", "lakehouse"), samples)
    figures.business_by_version["OrderPlaced", 1] = 5
    take_metrics(figures, everybody | {"translator": Samples()}, prefix="shop.public.", at=1.0)
    assert figures.technical.total == 42
    assert figures.technical_by_table["orders"] == 12
    assert figures.capture_lag.seconds == 0.25
    assert figures.sequencer_lag.records == 7
    assert figures.translator_lag.records is None
    assert figures.unknown() == ["translator"]
    assert figures.dead_letters == 1
    assert figures.lake.total == 13
    assert (figures.lakehouse_lag.records, figures.lakehouse_lag.seconds) == (4, 1.5)
    assert figures.business.total == 5
    take_metrics(figures, everybody, prefix="shop.public.", at=2.0)
    assert figures.translator_lag.records == 2
    assert figures.behind() == 13
    take_metrics(figures, dict.fromkeys(everybody, Samples()), prefix="shop.public.", at=3.0)
    assert figures.technical.total == 42, "a service that does not answer takes nothing away"
    assert figures.behind() == 13
