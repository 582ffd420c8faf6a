"""A task's process starts quickly: at every start, restart and takeover somebody waits for it."""

import subprocess
import sys


def test_a_task_loads_nothing_that_only_the_worker_needs() -> None:
    program = """
import sys
from tidings_connect.task.fork_server import preload

preload()
import tidings_capture.postgres.build
from tidings_service import configure_logging

configure_logging("capture", build_info=False)
print(*sorted(name for name in ("aiohttp", "httpx", "prometheus_client", "pydantic", "rich.console") if name in sys.modules))
import rich.console  # whoever wants it gets it
"""
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == []
