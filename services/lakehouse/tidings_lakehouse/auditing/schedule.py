"""Audits beside the streams, at intervals: `tidings-lakehouse audit` as a process of its own, its findings as metrics.

A process can be ended when the job stops, its memory is not the job's, and one that fails leaves the streams alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

from tidings_lakehouse.auditing.report import note_result
from tidings_lakehouse.metrics import AUDIT_FAILING, AUDITED
from tidings_service import get_logger

_FIRST_SECONDS = 600.0
"""The first audit is not later than that after the start, or a job that is often started again would have none."""
_STOP_SECONDS = 5.0
_WRONG = 3
"""The command's exit code when a row is wrong."""
_MEMORY = "512m"
"""Of DuckDB; what does not fit goes to the directory for temporary files."""
_LOG = get_logger(__name__)


class Auditing:
    """Audits all tables again and again, in a thread that waits for the process.

    Args:
        every_seconds: from the end of one audit to the beginning of the next.
        command: what is run, without `--json`.
    """

    def __init__(
        self,
        every_seconds: float,
        command: Sequence[str] = (sys.executable, "-m", "tidings_lakehouse.cli", "audit"),
    ) -> None:
        self._every = every_seconds
        self._command = [*command, "--json"]
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="tidings-audit", daemon=True)

    def start(self) -> None:
        """Begin, with the first audit some minutes from now."""
        AUDIT_FAILING.set(0)
        self._thread.start()

    def stop(self) -> None:
        """End the audit that is under way, which leaves nothing behind, and the thread."""
        self._stopping.set()
        with self._lock:
            if self._process is not None:
                self._process.terminate()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        pause = min(self._every, _FIRST_SECONDS)
        while not self._stopping.wait(pause):
            try:
                self.audit()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next one is due
                AUDIT_FAILING.set(1)
                _LOG.error("the audit could not be run", error=f"{type(error).__name__}: {error}")
            pause = self._every

    def audit(self) -> None:
        """Audit once; what goes wrong is logged and shown in a metric, and tried again the next time."""
        with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
            with self._lock:
                if self._stopping.is_set():
                    return
                self._process = subprocess.Popen(
                    self._command,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env={**os.environ, "TIDINGS_LAKEHOUSE_HEAP": _MEMORY},
                )
            with self._process as process:
                assert process.stdout is not None
                for line in process.stdout:
                    _note(line)
            self._process = None
            if self._stopping.is_set():
                return
            if process.returncode in {0, _WRONG}:
                AUDITED.set(time.time())
                AUDIT_FAILING.set(0)
                return
            AUDIT_FAILING.set(1)
            errors.seek(0)
            _LOG.error(
                "the audit failed; it is tried again later",
                code=process.returncode,
                reason=" ".join(errors.read(2_000).split()),
                hint="run tidings lakehouse audit with the job's settings",
            )


def _note(line: str) -> None:
    """Show one table's result; keys are values of rows and are not logged."""
    result = json.loads(line)
    table, wrong, reason = result["table"], len(result["findings"]), result["reason"]
    note_result(table, wrong=wrong, undecided=result["undecided"], reason=reason)
    if reason:
        _LOG.warning("a table is not compared", table=table, reason=reason)
    if wrong:
        _LOG.error(
            "rows of the lake are not what the database has",
            table=table,
            rows=wrong,
            hint=f"tidings lakehouse audit --table {table} names them",
        )
