"""The sequencer's memory through one transaction of as many rows as ``--rows`` says, and how long it takes.

It goes to disk above an eighth of a million rows and comes out in parts; without that, a row takes about a kilobyte.
"""

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.processes import cpu_seconds, resident_bytes
from tests.bench.translator.backlog import Backlog
from tests.bench.translator.shop_backlog import write_backlog

from tidings_stack import Stack

ROWS_PER_ORDER = 4


def run(rows: int) -> None:
    """Print the largest resident memory, beside that of the idle process."""
    with Stack(members=("kafka", "registry")) as stack:
        prefix = f"large_{secrets.token_hex(3)}"
        bootstrap = stack.kafka.bootstrap
        topics = write_backlog(
            bootstrap, stack.registry.url, prefix, rows, "json", large=rows // ROWS_PER_ORDER
        )
        environment = {
            **os.environ,
            "TIDINGS_KAFKA": bootstrap,
            "TIDINGS_REGISTRY": stack.registry.url,
            "TIDINGS_DOMAIN": "tidings_shop.domain",
            "TIDINGS_SOURCE": prefix,
            "TIDINGS_HTTP_PORT": "0",
        }
        backlog = Backlog(bootstrap, f"tidings-sequencer-{prefix}", topics)
        with (Path(stack.directory) / "large.log").open("wb") as log:
            command = str(Path(sys.executable).with_name("tidings-sequencer"))
            process = subprocess.Popen([command], env=environment, stderr=log)
        try:
            began, peak = time.monotonic(), 0
            while backlog.left() > 16:
                if process.poll() is not None:
                    raise RuntimeError(f"the sequencer ended with {process.returncode}")
                peak = max(peak, resident_bytes(process.pid))
                time.sleep(0.1)
            print(
                f"  {rows:,} rows in one transaction: {time.monotonic() - began:6.1f} s,"
                f" {cpu_seconds(process.pid):6.1f} CPU seconds, at most {peak / 1e6:,.0f} MB",
                flush=True,
            )
        finally:
            backlog.close()
            process.terminate()
            process.wait(60)
