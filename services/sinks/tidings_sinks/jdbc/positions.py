"""Positions in the database that a person alters or resets, while no task runs."""

from collections.abc import Callable, Mapping

from tidings_connect.task.sink import TopicPartition
from tidings_service import Retry
from tidings_sinks.errors import BusyError, TargetError
from tidings_sinks.jdbc.database import Database
from tidings_sinks.jdbc.open_database import open_database
from tidings_sinks.jdbc.settings import Settings
from tidings_sinks.transactions.kept_numbers import SINCE
from tidings_sinks.transactions.options import POSITION


def change_positions(settings: Settings, offsets: Mapping[TopicPartition, int | None] | None) -> None:
    """Say where partitions go on; all of them where their group does for None.

    Raises:
        TargetError: the database cannot be asked, or refuses; nothing is changed.
    """
    if offsets and settings.transactions is not None:
        # What is read again is not to be taken for what a source repeats.
        topic = settings.transactions.topic
        offsets = {**offsets, TopicPartition(topic, POSITION): None, TopicPartition(topic, SINCE): None}
    change_positions_of(lambda: open_database(settings), settings.group, offsets)


def change_positions_of(
    connect: Callable[[], Database], group: str, offsets: Mapping[TopicPartition, int | None] | None
) -> None:
    """The same of a group, with a connection of one's own."""
    try:
        database = connect()
        try:
            database.make_positions()
            database.begin()
            if offsets is None:
                database.forget(group)
            for at, offset in (offsets or {}).items():
                database.alter(group, at, offset)
            database.commit()
        finally:
            database.close()
    except BusyError as error:
        raise TargetError(
            f"the positions in the database stay as they are: {error}", retry=Retry.TIMED
        ) from None
