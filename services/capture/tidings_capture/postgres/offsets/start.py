"""A task's start: checks the server, finds what may be lost, and does what `cdc.start` decides.

The table of decisions is there; what PostgreSQL says, and what is done about it, is here.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from tidings_capture.cdc.fault_points import reached
from tidings_capture.cdc.start import Begin, SnapshotWork, Start, Stored, begin, rest_of
from tidings_capture.postgres.client import Replication
from tidings_capture.postgres.encoding.routes import Routes
from tidings_capture.postgres.errors import LossError
from tidings_capture.postgres.offsets.history import history_now, read_publication, with_publication
from tidings_capture.postgres.offsets.loss_recovery import LossRecovery, check_published
from tidings_capture.postgres.offsets.losses import Found, choice_of, find_losses
from tidings_capture.postgres.offsets.offset import SourceOffset, decode_offset
from tidings_capture.postgres.offsets.positions import Positions, position_at
from tidings_capture.postgres.server.database import PostgresDatabase
from tidings_capture.postgres.server.replica_identities import set_identities
from tidings_capture.postgres.server.setup import (
    SlotState,
    captured_tables,
    check_server,
    create_slot,
    ensure_publication,
    read_slot,
    server_lsn,
    warn_of_refused_updates,
)
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.wal.options import LossChoice
from tidings_connect.task.checkpoints import Checkpoints
from tidings_envelope.position import lsn_to_text
from tidings_service import get_logger

_log = get_logger(__name__)


class TaskStart:
    """Decides once, at the start.

    Args:
        stored_offset: the connector's offset as it is stored.
        on_wait: called again and again; may raise to give up.
    """

    def __init__(
        self,
        config: ConnectorConfig,
        database: PostgresDatabase,
        routes: Routes,
        positions: Positions,
        checkpoints: Checkpoints[SourceOffset],
        recovery: LossRecovery,
        stored_offset: Callable[[], bytes | None],
        on_wait: Callable[[], None],
    ) -> None:
        self._config = config
        self._database = database
        self._routes = routes
        self._positions = positions
        self._checkpoints = checkpoints
        self._recovery = recovery
        self._stored_offset = stored_offset
        self._on_wait = on_wait

    def decide(self) -> Start[SourceOffset]:
        """What to do, by ``snapshot.mode``, the stored offset and the slot.

        Raises:
            CatalogError: the server or the options do not allow to start.
            LossError: what follows the stored offset cannot be had in full, and nobody has chosen what to do then.
        """
        config, session = self._config, self._database.session
        options = config.snapshot
        check_server(session)
        captured = captured_tables(session, config)
        self._routes.expect(captured)
        data = self._stored_offset()
        stored = None if data is None else decode_offset(data)
        slot = read_slot(session, config)
        # Before anything is changed: what is amiss must not be mended over.
        found, stored, loss = self._look_back(slot, stored, captured)
        choice = choice_of(config)
        if loss is not None and choice == "fail":
            raise loss
        self._publish(captured, found, loss, choice)
        # A signal is not data: what the signal table holds has been said to somebody before.
        tables = [t for t in captured if options.includes(*t) and t != config.signals.table]
        decision = begin(
            options,
            _kind_of(data, stored),
            log_kept=slot is not None and slot.wal_status != "lost",
            lost=loss is not None,
            loss_choice=choice,
        )
        if stored is None:
            return self._first_start(decision, tables, slot)
        self._checkpoints.start_from(stored)
        match decision:
            case Begin.SNAPSHOT_ALONE:
                return Start(snapshot=rest_of(tables, stored.unfinished or (), None, options.selects))
            case Begin.SNAPSHOT_BEHIND_STREAM:
                return Start(snapshot=rest_of(tables, stored.unfinished or (), stored, options.selects))
            case Begin.RECOVER:
                assert loss is not None
                return self._recovery.recover(loss, choice, stored, found, tables)
            case Begin.REST:
                return Start()
            case Begin.STREAM_WITHOUT_SNAPSHOT:
                stored = replace(stored, unfinished=None)
        _log.info("resuming", connector=config.name, lsn=lsn_to_text(stored.done_lsn))
        return Start(resume=stored)

    def _first_start(
        self, decision: Begin, tables: list[tuple[str, str]], slot: SlotState | None
    ) -> Start[SourceOffset]:
        """A start without a position."""
        selects = dict(self._config.snapshot.selects)
        match decision:
            case Begin.STREAM_FROM_NOW:
                return Start(resume=self._start_without_data(slot))
            case Begin.SNAPSHOT_BEHIND_LOG:
                assert slot is not None
                kept = position_at(slot.confirmed_lsn)
                return Start(snapshot=SnapshotWork(tables, catch_up=kept, selects=selects))
            case Begin.SNAPSHOT:
                return Start(snapshot=SnapshotWork(tables, selects=selects))
        return Start()

    def _look_back(
        self, slot: SlotState | None, stored: SourceOffset | None, captured: list[tuple[str, str]]
    ) -> tuple[Found, SourceOffset | None, LossError | None]:
        """What the server says, the offset in its present history, and what may have been lost since."""
        config, session = self._config, self._database.session
        publication = read_publication(session, config.publication)
        with contextlib.closing(Replication(config.endpoint)) as replication:
            history = history_now(replication, publication, captured)
            found = Found(slot, server_lsn(session), history, publication, replication.timeline_history)
            if stored is None or not config.snapshot.streams:
                return found, stored, None
            position, loss = find_losses(stored, found, captured, config)
        if position is not stored:
            _log.info("the server was promoted", connector=config.name, lsn=lsn_to_text(position.done_lsn))
        return found, position, loss

    def _publish(
        self,
        captured: list[tuple[str, str]],
        found: Found,
        loss: LossError | None,
        choice: LossChoice,
    ) -> None:
        """See to the publication and the replica identities; from here on every offset says what it is a position of."""
        config, session = self._config, self._database.session
        ensure_publication(session, config, captured)
        publication = read_publication(session, config.publication)
        if loss is not None:
            check_published(loss, publication, choice)
        for change in set_identities(session, config.identities, captured):
            _log.info("replica identity set", connector=config.name, change=change)
        warn_of_refused_updates(session, config, captured)
        before, after = (p.members if p is not None else {} for p in (found.publication, publication))
        added = [
            f"{s}.{t}"
            for s, t in captured
            if (s, t) in before and _is_in(after, (s, t)) > _is_in(before, (s, t))
        ]
        if added:
            _log.warning(
                "tables were added to the publication: earlier changes of them are not streamed",
                connector=config.name,
                tables=added[:20],
                count=len(added),
                hint="an execute-snapshot signal reads them",
            )
        if publication is not None and not publication.all_tables:
            short = [f"{s}.{t}" for s, t in captured if not _is_in(after, (s, t))]
            if short:
                _log.warning(
                    "captured tables are not in the publication: their changes are not streamed",
                    connector=config.name,
                    publication=config.publication,
                    tables=short[:20],
                    count=len(short),
                )
        self._positions.history = with_publication(found.history, publication, captured)

    def _start_without_data(self, slot: SlotState | None) -> SourceOffset:
        if slot is None:
            with contextlib.closing(Replication(self._config.endpoint)) as replication:
                lsn = create_slot(replication, self._config, self._on_wait)
            reached("slot.created")
        else:
            lsn = slot.confirmed_lsn
        start = position_at(lsn)
        # Stored at once: a slot that is dropped before the first record must be noticed, too.
        self._checkpoints.take_and_wait(start)
        return start


def _kind_of(data: bytes | None, stored: SourceOffset | None) -> Stored:
    if stored is None:
        return Stored.NOTHING if data is None else Stored.INTERRUPTED
    return Stored.POSITION if stored.unfinished is None else Stored.PART


def _is_in(members: Mapping[tuple[str, str], tuple[int, tuple[int, ...]]], table: tuple[str, str]) -> bool:
    return bool(members.get(table, (0, ()))[1])
