"""Blocking snapshots: a signal asks for one in the middle of the stream, which ends behind its transaction and waits for it."""

import re
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from tidings_capture.cdc.database import TableId
from tidings_capture.cdc.filters import matches
from tidings_capture.cdc.signals.channels import Signal, condition_for, conditions_of, table_pattern
from tidings_capture.cdc.start import SnapshotWork
from tidings_connect.errors import ConnectError
from tidings_connect.java.regex import JavaPattern
from tidings_service import get_logger

_log = get_logger(__name__)
P = TypeVar("P")


class BlockingSnapshots:
    """Those that were asked for and not taken yet, the oldest first.

    Args:
        name: the connector's, for the log.
        captured: the tables that the filters choose now.
        enclose: see `SignalOptions`.
        held: whether none may be taken now, because the log would grow too long.
    """

    def __init__(
        self,
        name: str,
        captured: Callable[[], list[TableId]],
        enclose: Callable[[str], str],
        held: Callable[[], bool] = lambda: False,
    ) -> None:
        self._name = name
        self._captured = captured
        self._enclose = enclose
        self._held = held
        self._asked: deque[Signal] = deque()

    @property
    def waiting(self) -> bool:
        """Whether the stream is to end for one."""
        return bool(self._asked)

    def ask(self, signal: Signal) -> None:
        """A signal asks for one; what cannot be done is refused before the stream ends for it.

        Raises:
            ConnectError: see `_patterns`.
        """
        self._patterns(signal)
        if self._held():
            _log.warning("no snapshot now: the database retains too much of its log", signal=signal.id)
            return
        self._asked.append(signal)

    def take(self, position: P) -> SnapshotWork[P]:
        """The oldest one, whose filters are whole SELECT statements.

        Args:
            position: where the stream stands.
        """
        signal = self._asked.popleft()
        patterns = self._patterns(signal)
        tables = [
            (schema, table) for schema, table in self._captured() if matches(patterns, f"{schema}.{table}")
        ]
        selects = {
            f"{s}.{t}": text for s, t in tables if (text := condition_for(signal, f"{s}.{t}", self._enclose))
        }
        _log.info(
            "blocking snapshot asked for", connector=self._name, signal=signal.id, tables=signal.names()
        )
        return SnapshotWork(tables, catch_up=position, selects=selects, blocking=True)

    def _patterns(self, signal: Signal) -> list[JavaPattern]:
        """Which tables are to be read; unlike an incremental snapshot's in any case.

        Raises:
            ConnectError: they are not named, one is not a regular expression, or a filter cannot be used.
        """
        names = signal.names()
        if names is None:
            raise ConnectError("data-collections is missing or is not a list of strings")
        conditions_of(signal, self._enclose)  # to be refused now, not when the stream has ended for it
        return [table_pattern(name.replace('"', ""), re.IGNORECASE) for name in names]
