"""`tidings-lakehouse repair`: rows that the audit finds wrong are told again by their source.

Nothing is written into the lake from here. The source's connector is asked what the database has for the keys (signal
`repair-rows`), and its records come by the topic, as all others: the job writes them once, each with its place in the stream, so
that a change that comes meanwhile wins, the log says what was repaired, and positions and the watermark stay true. A second
run asks only for what is still wrong, whatever became of the first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidings_lakehouse.auditing.audit import LOOKED_AT_ONCE, Audit, Finding, TableResult
from tidings_lakehouse.auditing.source import AuditTable, Key
from tidings_lakehouse.errors import RepairError

if TYPE_CHECKING:
    from tidings_lakehouse.repairing.worker import Worker

_POLL_SECONDS = 0.5


@dataclass
class Repaired:
    """What became of the wrong rows of one table."""

    result: TableResult
    """Of the audit before."""
    signals: list[str] = field(default_factory=list)
    """Ids; the records that came of them have these in their header `tidings.repair`."""
    left: list[Finding] = field(default_factory=list)
    """Rows that are still wrong."""
    undecided: int = 0
    """Rows that the watermark has not passed in time."""

    @property
    def mended(self) -> int:
        """Rows that are right now."""
        return len(self.result.findings) - len(self.left) - self.undecided if self.signals else 0


class Repair:
    """Repairs tables of one source.

    Args:
        audit: finds the wrong rows, and sees when they are right.
        worker: has them told again.
        connector: of the source.
        id_: of this repair; signals have it with a number.
        wait: seconds for which rows are waited for.
    """

    def __init__(self, audit: Audit, worker: Worker, connector: str, id_: str, *, wait: float) -> None:
        self._audit = audit
        self._worker = worker
        self._connector = connector
        self._id = id_
        self._wait = wait
        self._signals = 0

    def table(self, table: AuditTable, result: TableResult) -> Repaired:
        """Have a table's wrong rows told again, and wait until the lake has them.

        Raises:
            RepairError: the worker does not do it.
        """
        repaired = Repaired(result)
        for findings in _parts(result.findings):
            self._signals += 1
            signal = f"{self._id}-{self._signals}"
            keys = [finding.texts for finding in findings]
            self._worker.tell_again(
                self._connector, signal, table.collection, [table.named(key) for key in keys]
            )
            repaired.signals.append(signal)
            seen = self._waited_for(table, keys)
            repaired.left += seen.findings
            repaired.undecided += seen.undecided
        return repaired

    def _waited_for(self, table: AuditTable, keys: Sequence[Key]) -> TableResult:
        """What is wrong when it has been waited for."""
        deadline = time.monotonic() + self._wait
        while True:
            seen = TableResult(table.lake)
            self._audit.decide(table, keys, seen)
            keys = keys if seen.undecided else [finding.texts for finding in seen.findings]
            if not keys or time.monotonic() > deadline:
                return seen
            time.sleep(_POLL_SECONDS)


def check_number(results: Sequence[TableResult], most: int) -> None:
    """See that there are not more wrong rows than somebody expects.

    Raises:
        RepairError: there are; nothing has been done.
    """
    wrong = sum(len(one.findings) for one in results)
    if wrong > most:
        raise RepairError(
            f"{wrong} rows are wrong, and --max-rows is {most}: nothing was repaired",
            hint="find out why they are wrong first; then allow as many, or read the table anew with an incremental snapshot",
        )


def _parts(findings: Sequence[Finding]) -> Iterator[Sequence[Finding]]:
    for start in range(0, len(findings), LOOKED_AT_ONCE):
        yield findings[start : start + LOOKED_AT_ONCE]
