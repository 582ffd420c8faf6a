"""Tells of commits of a MariaDB whose sequence numbers go back. Pure but for the log and the metric.

Tables order changes by commit position, which is the sequence number (`tidings_envelope.gtid`). A server without
``gtid_strict_mode`` may log a commit of a lower number than the last; then the log has its rows, and the current state
keeps older ones. Tidings' capture stops before such a commit; Debezium writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidings_envelope.errors import OrderError
from tidings_envelope.gtid import Gtid
from tidings_envelope.server_numbers import ServerNumbers
from tidings_lakehouse.metrics import COMMITS_OUT_OF_ORDER
from tidings_service import get_logger

_LOG = get_logger("tidings_lakehouse.watermark.server_order")


class ServerOrder:
    """Of one transaction topic.

    Args:
        topic: its name.
        noted: what `note` gave of what was read before; None: nothing.
    """

    def __init__(self, topic: str, noted: Mapping[str, Any] | None) -> None:
        self._topic = topic
        known = noted or {}
        self._numbers = ServerNumbers(
            {int(server): last for server, last in known.get("last", {}).items()}, known.get("since")
        )

    def read(self, ends: Iterable[Gtid]) -> None:
        """The transactions that have ended, in the order of the topic."""
        out_of_order: list[tuple[Gtid, int]] = []
        for gtid in ends:
            if gtid.sequence > self._numbers.highest:
                self._numbers.note(gtid)
                continue
            try:
                self._numbers.check_told(gtid)
            except OrderError:
                out_of_order.append((gtid, self._numbers.highest))
        if out_of_order:
            COMMITS_OUT_OF_ORDER.inc(len(out_of_order))
            first, before = out_of_order[0]
            _LOG.warning(
                "sequence numbers go back: current states keep rows that these transactions have replaced",
                topic=self._topic,
                transactions=len(out_of_order),
                first=str(first),
                behind=before,
            )

    def note(self) -> dict[str, Any]:
        """What is known, for a table to note."""
        return {
            "last": {str(server): last for server, last in self._numbers.last.items()},
            "since": self._numbers.since,
        }
