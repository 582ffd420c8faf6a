"""``gtid.source.includes`` and ``gtid.source.excludes``: whose transactions count. Pure.

What numbers a transaction is, in MySQL, a server's UUID, and in MariaDB a domain and a server, as ``0-1``. A transaction of a
source that is left out has rows that nobody is told of, as Debezium's connectors have it, and a server need not have logged it
for a connector to go on there: so a connector follows a failover although its former server has written something of its own.
Rows of the signal table are told in any case, because the windows of incremental snapshots stand in it.
"""

from dataclasses import dataclass
from typing import Final

from tidings_capture.cdc.filters import matches
from tidings_connect.java.regex import JavaPattern

INCLUDES: Final = "gtid.source.includes"
EXCLUDES: Final = "gtid.source.excludes"
FILTERS_ROWS: Final = "gtid.source.filter.dml.events"


@dataclass(frozen=True, slots=True)
class GtidSources:
    """The sources that count: those of a list, or all but those of the other one; never both."""

    includes: tuple[JavaPattern, ...] = ()
    excludes: tuple[JavaPattern, ...] = ()
    filters_rows: bool = True
    """``gtid.source.filter.dml.events``: else the lists say only what another server must have logged."""

    @property
    def choose(self) -> bool:
        """Whether any may be left out."""
        return bool(self.includes or self.excludes)

    def have(self, source: str) -> bool:
        """Whether one counts."""
        if self.includes:
            return matches(self.includes, source)
        return not matches(self.excludes, source)

    def hide(self, source: str | None) -> bool:
        """Whether the rows of its transactions are left out. None: the log names no sources, and all count."""
        return self.filters_rows and self.choose and source is not None and not self.have(source)
