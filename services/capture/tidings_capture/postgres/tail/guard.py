"""Drops what ``tidings-capture tail`` made when that dies without a chance to: by SIGKILL, or at a second Ctrl-C.

A process of its own, in a session of its own, so that what ends a terminal's or a job's processes leaves it alone. It is
told what there is to drop, and the login, through a pipe, and acts when the pipe ends without a word. What ends it as
well (the end of a container, of a machine) leaves a publication behind that the next `tail.run` drops.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from tidings_capture.postgres.client import Endpoint, Session, quote
from tidings_capture.postgres.errors import PostgresError

_DONE: Final = b"done"
_PATIENCE_SECONDS: Final = 600.0
"""How long a server that does not answer is asked again."""
_PAUSE_SECONDS: Final = 0.2
_WAIT_SECONDS: Final = 10.0


class TailGuard:
    """Started before anything is made.

    Args:
        pid: the walsender's process on the server: one that waits for open transactions does not see that its client is gone.
    """

    def __init__(self, endpoint: Endpoint, slot: str, publications: Sequence[str], pid: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tidings_capture.postgres.tail.guard"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        what = {"endpoint": asdict(endpoint), "slot": slot, "publications": list(publications), "pid": pid}
        self._tell(json.dumps(what).encode() + b"\n")

    def release(self) -> None:
        """All is dropped: nothing is left to do."""
        self._tell(_DONE)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_WAIT_SECONDS)

    def _tell(self, text: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # somebody has killed it: then the next run cleans up
            self._process.stdin.write(text)
            self._process.stdin.flush()


def main() -> None:
    """Wait for the end of standard input; then drop, unless the last word was that it is done."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    first = sys.stdin.buffer.readline()
    rest = sys.stdin.buffer.read()
    if not first.endswith(b"\n") or rest == _DONE:
        return
    what = json.loads(first)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(PostgresError):  # away, or busy: asked again
            if _dropped(what):
                return
        time.sleep(_PAUSE_SECONDS)


def _dropped(what: dict[str, Any]) -> bool:
    """Drop what can be dropped; whether that was all."""
    endpoint = Endpoint(**{
        **what["endpoint"],
        "initial_statements": (),
        "extra": tuple((name, value) for name, value in what["endpoint"]["extra"]),
    })  # fmt: skip
    session = Session(endpoint)
    try:
        session.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid = %s AND usename = current_user AND backend_type = 'walsender'",
            (what["pid"],),
        )
        listed = ", ".join(quote(name) for name in what["publications"])
        session.execute(f"DROP PUBLICATION IF EXISTS {listed}")
        slot = "FROM pg_replication_slots WHERE slot_name = %s"
        session.rows(f"SELECT pg_drop_replication_slot(slot_name) {slot} AND NOT active", (what["slot"],))
        return not session.rows(f"SELECT 1 {slot}", (what["slot"],))
    finally:
        session.close()


if __name__ == "__main__":
    main()
