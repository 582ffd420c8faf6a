"""The options of snapshots, typed: ``snapshot.*`` and ``streaming.delay.ms``."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings_capture.cdc.filters import matches
from tidings_connect.java.regex import JavaPattern

OVERRIDES = "snapshot.select.statement.overrides"
_BASED = "snapshot.mode.configuration.based."


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """When a snapshot is taken, of what, and how."""

    mode: str = "initial"
    """``snapshot.mode``; Debezium's old ``never`` is ``no_data``."""
    based_data: bool = False
    """``snapshot.mode.configuration.based.snapshot.data``: a snapshot at every start."""
    based_stream: bool = False
    """``...start.stream``"""
    based_on_data_error: bool = False
    """``...snapshot.on.data.error``: a new snapshot where the slot cannot give what follows the stored offset."""
    delay_seconds: float = 0.0
    streaming_delay_seconds: float = 0.0
    threads: int = 1
    order: str = "disabled"
    """``snapshot.tables.order.by.row.count``: ``disabled``, ``ascending`` or ``descending``."""
    include: tuple[JavaPattern, ...] = ()
    """``snapshot.include.collection.list``"""
    selects: Mapping[str, str] = field(default_factory=dict)
    """``snapshot.select.statement.overrides.<table>`` by ``schema.table``."""

    @property
    def streams(self) -> bool:
        """Whether the stream follows the snapshot."""
        return self.mode != "initial_only" and (self.mode != "configuration_based" or self.based_stream)

    @property
    def always(self) -> bool:
        """Whether every start takes a snapshot, stored offset or not."""
        return self.mode == "always" or (self.mode == "configuration_based" and self.based_data)

    @property
    def never(self) -> bool:
        """Whether a first start takes no snapshot."""
        return self.mode == "no_data" or (self.mode == "configuration_based" and not self.based_data)

    @property
    def when_lost(self) -> bool:
        """Whether a slot that cannot go on from the stored offset leads to a new snapshot rather than to an error."""
        return (
            self.mode == "when_needed"
            or self.always
            or (self.mode == "configuration_based" and self.based_on_data_error)
        )

    def includes(self, schema: str, table: str) -> bool:
        """Whether the snapshot reads a captured table."""
        return not self.include or matches(self.include, f"{schema}.{table}")


def select_overrides(config: Mapping[str, str]) -> dict[str, str]:
    """The statements by table.

    Raises:
        ValueError: a table is listed without a statement; it names the option that is missing.
    """
    found = {}
    for table in filter(None, (part.strip() for part in config.get(OVERRIDES, "").split(","))):
        statement = config.get(f"{OVERRIDES}.{table}", "").strip().rstrip(";")
        if not statement:
            raise ValueError(f"names {table}, but {OVERRIDES}.{table} is not set")
        found[table] = statement
    return found
