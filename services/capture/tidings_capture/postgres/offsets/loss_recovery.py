"""What ``on.slot.loss`` has chosen, done: where to go on, and what to read again.

``incremental``: the stream goes on at once from where the slot stands, a new one where it cannot be used, and the tables
are read again meanwhile by an incremental snapshot; those without a key by a snapshot of their own, because chunks go by
key. The new position is stored together with what has yet to be read, so a crash at any point goes on with it. ``snapshot``
reads everything first, ``continue`` nothing. What was deleted in the gap is found by both by comparing the topics' keys with
the tables, behind the reading (`deleted_rows`).
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace

from tidings_capture.cdc.incremental.chunks import chunk_columns
from tidings_capture.cdc.incremental.state import Collection, restored_state
from tidings_capture.cdc.signals.notifications import LOSS, Notifier
from tidings_capture.cdc.start import SnapshotWork, Start
from tidings_capture.postgres.client import Replication
from tidings_capture.postgres.errors import LossError, PublicationError
from tidings_capture.postgres.offsets.history import Publication
from tidings_capture.postgres.offsets.losses import Found
from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_capture.postgres.offsets.positions import position_at
from tidings_capture.postgres.server.database import PostgresDatabase
from tidings_capture.postgres.server.setup import create_slot, drop_slot
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.wal.options import LossChoice
from tidings_connect.task.checkpoints import Checkpoints
from tidings_envelope.position import lsn_to_text
from tidings_service import get_logger

CORRELATION = "on.slot.loss"
"""The id that the incremental snapshot after a loss has in notifications and in the stored offset."""

_log = get_logger(__name__)


class LossRecovery:
    """What a task does after a loss.

    Args:
        losses: counts them, by reason.
        on_wait: called again and again; may raise to give up.
    """

    def __init__(
        self,
        config: ConnectorConfig,
        database: PostgresDatabase,
        checkpoints: Checkpoints[SourceOffset],
        notifier: Notifier,
        losses: dict[str, int],
        on_wait: Callable[[], None],
    ) -> None:
        self._config = config
        self._database = database
        self._checkpoints = checkpoints
        self._notifier = notifier
        self._losses = losses
        self._on_wait = on_wait

    def recover(
        self,
        loss: LossError,
        choice: LossChoice,
        offset: SourceOffset,
        found: Found,
        tables: list[tuple[str, str]],
    ) -> Start[SourceOffset]:
        """Go on after a loss.

        Args:
            offset: the stored one.
            tables: the captured ones.

        Raises:
            LossError: the choice does not help: a table is still not in the publication.
        """
        config = self._config
        affected = tables if loss.tables is None else [table for table in tables if table in loss.tables]
        whole = loss.tables is None
        _log.error(
            "changes may be lost",
            connector=config.name,
            reason=str(loss),
            after=lsn_to_text(offset.done_lsn),
            choice=choice,
            tables=len(affected),
        )
        self._losses[loss.reason] = self._losses.get(loss.reason, 0) + 1
        selects = dict(config.snapshot.selects)
        usable = _usable(loss, found)
        if whole and not usable and found.slot is not None:
            drop_slot(config.endpoint, config.slot)
        if choice == "snapshot":
            self._tell(loss, choice, offset, None)
            return Start(snapshot=self._snapshot(affected, None if whole else offset, selects))
        position = offset if not whole else self._new_position(found, usable=usable)
        self._tell(loss, choice, offset, position)
        if choice == "continue":
            position = replace(position, unfinished=offset.unfinished if not whole else None)
            self._checkpoints.take_and_wait(position)
            return Start(resume=position)
        keyed, keyless = self._by_key(affected)
        state = restored_state(position.incremental)
        state.collections += [Collection(f"{s}.{t}", correlation_id=CORRELATION) for s, t in keyed]
        state.collections += _deleted(keyed)
        state.correlation_id = CORRELATION
        done = tuple(f"{s}.{t}" for s, t in tables if (s, t) not in keyless) if keyless else None
        position = replace(position, incremental=state.stored(), unfinished=done, snapshot=None)
        self._checkpoints.take_and_wait(position)
        if keyless:
            return Start(snapshot=SnapshotWork(keyless, catch_up=position, done=done or (), selects=selects))
        return Start(resume=position)

    def _snapshot(
        self, tables: list[tuple[str, str]], stored: SourceOffset | None, selects: dict[str, str]
    ) -> SnapshotWork[SourceOffset]:
        """Everything is read again; behind it the stream begins with the search for what was deleted."""
        state = restored_state(None if stored is None else stored.incremental)
        signals = self._config.signals
        if signals.table is not None or signals.read_only:
            keyed, _ = self._by_key(tables)
            state.collections += _deleted(keyed)
            state.correlation_id = CORRELATION
        else:
            _log.warning(
                "rows that were deleted in the gap are not looked for",
                connector=self._config.name,
                hint="it needs read.only=true or signal.data.collection; then send the signal find-deleted-rows",
            )
        afterwards = state.stored()
        catch_up = None if stored is None else replace(stored, incremental=afterwards)
        return SnapshotWork(tables, catch_up=catch_up, selects=selects, afterwards=afterwards)

    def _new_position(self, found: Found, *, usable: bool) -> SourceOffset:
        if usable:
            assert found.slot is not None
            lsn = found.slot.confirmed_lsn
        else:
            with contextlib.closing(Replication(self._config.endpoint)) as replication:
                lsn = create_slot(replication, self._config, self._on_wait)
        return position_at(lsn)

    def _by_key(self, tables: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Tables that can be read in chunks, and those that cannot."""
        catalog = self._database.catalog()
        keyed: list[tuple[str, str]] = []
        keyless: list[tuple[str, str]] = []
        for table, known in zip(
            tables, catalog.tables_by_name(tables, self._config.publication), strict=True
        ):
            (keyed if chunk_columns(known, "") else keyless).append(table)
        return keyed, keyless

    def _tell(
        self, loss: LossError, choice: LossChoice, offset: SourceOffset, position: SourceOffset | None
    ) -> None:
        data = {"reason": loss.reason, "choice": choice, "lost_after_lsn": lsn_to_text(offset.done_lsn)}
        if position is not None:
            data["continued_at_lsn"] = lsn_to_text(position.done_lsn)
        self._notifier.tell(LOSS, "DETECTED", data, id_=CORRELATION)


def _deleted(tables: list[tuple[str, str]]) -> list[Collection]:
    return [Collection(f"{s}.{t}", correlation_id=CORRELATION, deleted=True) for s, t in tables]


def check_published(loss: LossError, publication: Publication | None, choice: LossChoice) -> None:
    """Make sure that what was lost can be captured from now on.

    Raises:
        PublicationError: a table is still not in the publication.
    """
    if choice == "continue" or not loss.tables or publication is None or publication.all_tables:
        return
    still = [t for t in loss.tables if not publication.members.get(t, (0, ()))[1]]
    if still:
        names = ", ".join(f"{schema}.{table}" for schema, table in still)
        raise PublicationError(
            f"{loss}; {names} is still not in it",
            reason=loss.reason,
            tables=loss.tables,
            hint="ALTER PUBLICATION ... ADD TABLE, and restart the connector; or leave the table out of "
            "table.include.list",
        )


def _usable(loss: LossError, found: Found) -> bool:
    """Whether the stream can go on with the slot there is.

    After a publication was made anew it cannot: PostgreSQL before 18 refuses to decode what was written without it.
    """
    slot = found.slot
    if slot is None or slot.wal_status == "lost" or isinstance(loss, PublicationError):
        return False
    return slot.confirmed_lsn <= found.server_lsn
