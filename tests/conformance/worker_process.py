"""A real capture worker as a process of its own, for as long as a `with` lasts."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from side_by_side import rest

_START_SECONDS = 60


@contextlib.contextmanager
def worker_process(directory: Path, bootstrap: str, group: str, **settings: str) -> Iterator[str]:
    """Start `tidings-capture` in a directory; the URL of its REST API, and its log beside it as ``worker.log``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    storage = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    properties = directory / "worker.properties"
    lines = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "listeners": url,
        **storage,
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        "offset.storage.partitions": "3",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        **settings,
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    log = directory / "worker.log"
    command = [str(Path(sys.executable).with_name("tidings-capture")), str(properties)]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError):
        return rest(f"{url}/readyz")[0] == 200
    return False
