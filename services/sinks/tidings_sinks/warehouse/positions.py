"""Positions in the warehouse that a person alters or resets, while no task runs."""

from collections.abc import Mapping

from tidings_connect.task.sink import RetriableError, TopicPartition
from tidings_service import Retry
from tidings_sinks.errors import TargetError
from tidings_sinks.jdbc.positions import change_positions_of
from tidings_sinks.warehouse.duck import DuckDatabase
from tidings_sinks.warehouse.lock import locked
from tidings_sinks.warehouse.settings import WarehouseSettings


def change_positions(
    settings: WarehouseSettings, offsets: Mapping[TopicPartition, int | None] | None
) -> None:
    """Say where partitions go on; all of them where their group does for None.

    Raises:
        TargetError: the warehouse cannot be opened, or refuses; nothing is changed.
    """
    try:
        with locked(settings.file):
            change_positions_of(lambda: DuckDatabase(settings), settings.rows.group, offsets)
    except RetriableError as error:
        raise TargetError(
            f"the positions in the warehouse stay as they are: {error}", retry=Retry.TIMED
        ) from None
