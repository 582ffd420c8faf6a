"""Places in a log, as both servers' logs have them: what a stream, a snapshot and an offset know of one. Pure.

MariaDB's are `gtid`, MySQL's `gtid_set`, and `file_position` where a MySQL names no transactions (``gtid_mode=OFF``).
"""

from typing import Any, Protocol


class TransactionId(Protocol):
    """Which transaction of the log it is; its text is stored in offsets."""

    @property
    def shown(self) -> str | None:
        """``source.gtid``; None where the log names no transactions."""
        ...

    @property
    def name(self) -> str:
        """``transaction.id``."""
        ...

    @property
    def origin(self) -> str | None:
        """What numbers it, as `GtidSources` name it; None where the log names none."""
        ...


class LogPosition(Protocol):
    """A place between two transactions: all before it are complete. Immutable; its text is read again by `Flavour.position`.

    Places and ids of one stream are of one kind: another one is a TypeError.
    """

    @property
    def has_ids(self) -> bool:
        """Whether it names transactions, so that it holds on another server too: ``gtids`` of the offset."""
        ...

    @property
    def is_start(self) -> bool:
        """Whether it lies before everything."""
        ...

    @property
    def sequence(self) -> int | None:
        """The number of the last transaction, 0 before the first; None where they do not compare."""
        ...

    def after(self, gtid: Any) -> "LogPosition":
        """The place with one more transaction before it."""
        ...

    def ended(self, gtid: Any, file: str, end: int) -> "LogPosition":
        """As `after`, where the transaction ends at a byte of a file."""
        ...

    def passed(self, file: str, end: int) -> "LogPosition":
        """The place behind what is no transaction."""
        ...

    def holds(self, gtid: Any) -> bool:
        """Whether a transaction lies before it."""
        ...

    def contains(self, other: Any) -> bool:
        """Whether all that lies before the other place lies before this one."""
        ...
