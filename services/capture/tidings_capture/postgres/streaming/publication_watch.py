"""Looks at the publication while a task streams: a table that leaves it is silent in the stream.

PostgreSQL 18 streams on without a word when the whole publication is gone; older servers refuse.
"""

import time
from typing import Final

from tidings_capture.postgres.errors import PostgresError, PublicationError
from tidings_capture.postgres.offsets.history import read_publication, with_publication
from tidings_capture.postgres.offsets.losses import check_publication, choice_of
from tidings_capture.postgres.offsets.positions import Positions
from tidings_capture.postgres.server.database import PostgresDatabase
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_envelope.position import lsn_to_text
from tidings_service import Retry, get_logger

_EVERY_SECONDS: Final = 5.0

_log = get_logger(__name__)


class PublicationWatch:
    """Polled by a task between batches."""

    def __init__(self, config: ConnectorConfig, database: PostgresDatabase, positions: Positions) -> None:
        self._config = config
        self._database = database
        self._positions = positions
        self._next = time.monotonic() + _EVERY_SECONDS

    def poll(self, now: float) -> None:
        """Look when it is time.

        Raises:
            PublicationError: a table's changes are not streamed any more; worth another attempt only where
                ``on.slot.loss`` says what to do.
        """
        if now < self._next:
            return
        self._next = now + _EVERY_SECONDS
        config, positions = self._config, self._positions
        history = positions.history
        if history is None:
            return
        try:
            publication = read_publication(self._database.session, config.publication)
        except PostgresError as error:
            _log.warning("the publication could not be looked at", connector=config.name, reason=str(error))
            self._database.drop_session()
            return
        members = {} if publication is None else publication.members
        captured = [table for table in members if config.tables.captures(*table)]
        try:
            check_publication(history, publication, captured, config, lsn_to_text(positions.confirmed_lsn))
        except PublicationError as error:
            if choice_of(config) != "fail":
                error.retry = Retry.TIMED  # the next start does what was chosen
            raise
        positions.history = with_publication(history, publication, captured)
