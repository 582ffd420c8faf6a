"""Decides what a task does when it starts: stream from the stored offset, take a snapshot, or rest.

All of ``snapshot.mode`` is here. The server has been checked before; whatever is decided is logged.
"""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidings_capture.errors import SlotError
from tidings_capture.fault_points import reached
from tidings_capture.postgres import Replication
from tidings_capture.preparation import (
    SlotState,
    captured_tables,
    check_server,
    check_slot,
    create_slot,
    ensure_publication,
    read_slot,
    server_lsn,
)
from tidings_capture.replica_identities import set_identities
from tidings_capture.signals import Signal, condition_for
from tidings_capture.source_offset import SourceOffset, decode_offset
from tidings_capture.task_parts import TaskParts
from tidings_envelope.position import lsn_to_text
from tidings_service import get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotWork:
    """A snapshot that is to be taken."""

    tables: list[tuple[str, str]]
    """Schema and name, in order; without those that are `done`."""
    catch_up: SourceOffset | None = None
    """From where the slot that exists is streamed up to the snapshot first; None: nothing was sent before."""
    done: tuple[str, ...] = ()
    """Tables that an interrupted snapshot has sent as a whole."""
    selects: dict[str, str] = field(default_factory=dict)
    """What is read of a table, by ``schema.table``, instead of everything."""
    blocking: bool = False
    """Asked for by a signal, in the middle of the stream."""


@dataclass(frozen=True, slots=True)
class Start:
    """At most one of them; neither: there is nothing to do."""

    resume: SourceOffset | None = None
    snapshot: SnapshotWork | None = None


def decide(parts: TaskParts) -> Start:
    """What to do, by ``snapshot.mode``, the stored offset and the slot.

    Raises:
        CatalogError: the server or the options do not allow to start.
        SlotError: the slot cannot give what follows the stored offset, and the mode does not allow a new snapshot.
    """
    config, session = parts.config, parts.session
    options = config.snapshot
    check_server(session)
    captured = captured_tables(session, config)
    ensure_publication(session, config, captured)
    for change in set_identities(session, config.identities, captured):
        _log.info("replica identity set", connector=config.name, change=change)
    # A signal is no data: what the signal table holds has been said to somebody before.
    tables = [t for t in captured if options.includes(*t) and t != config.signals.table]
    data = parts.stored_offset()
    stored = None if data is None else decode_offset(data)
    slot = read_slot(session, config)
    if stored is None:
        if options.never:
            return Start(resume=_start_without_data(parts, slot)) if options.streams else Start()
        # Debezium was interrupted within its snapshot: what it sent is older than the slot's changes, or among them.
        interrupted = data is not None and slot is not None and slot.wal_status != "lost" and options.streams
        start = (
            SourceOffset(done_lsn=slot.confirmed_lsn, lsn=slot.confirmed_lsn)
            if slot is not None and interrupted
            else None
        )
        return Start(snapshot=SnapshotWork(tables, catch_up=start, selects=dict(options.selects)))
    parts.checkpoints.start_from(stored)
    if not options.streams:
        if stored.unfinished is None and not options.always:
            return Start()
        return Start(snapshot=_rest(tables, stored, None, options.selects))
    if not _can_resume(parts, slot, stored):
        return Start(snapshot=SnapshotWork(tables, selects=dict(options.selects)))
    if options.never:
        stored = replace(stored, unfinished=None)
    if stored.unfinished is not None or options.always:
        return Start(snapshot=_rest(tables, stored, stored, options.selects))
    _log.info("resuming", connector=config.name, lsn=lsn_to_text(stored.done_lsn))
    return Start(resume=stored)


def _rest(
    tables: list[tuple[str, str]],
    stored: SourceOffset,
    catch_up: SourceOffset | None,
    selects: Mapping[str, str],
) -> SnapshotWork:
    done = stored.unfinished or ()
    left = [(schema, table) for schema, table in tables if f"{schema}.{table}" not in done]
    return SnapshotWork(left, catch_up, done, dict(selects))


def _can_resume(parts: TaskParts, slot: SlotState | None, stored: SourceOffset) -> bool:
    config = parts.config
    try:
        check_slot(slot, stored, config, server_lsn(parts.session))
    except SlotError as error:
        if not config.snapshot.when_lost:
            raise
        _log.warning("a new snapshot is needed", connector=config.name, reason=str(error))
        return False
    return True


def _start_without_data(parts: TaskParts, slot: SlotState | None) -> SourceOffset:
    if slot is None:
        with contextlib.closing(Replication(parts.config.endpoint)) as replication:
            lsn = create_slot(replication, parts.config)
        reached("slot.created")
    else:
        lsn = slot.confirmed_lsn
    start = SourceOffset(done_lsn=lsn, lsn=lsn)
    # Stored at once: a slot that is dropped before the first record must be noticed, too.
    parts.checkpoints.take_and_wait(start)
    return start


def blocking_work(parts: TaskParts, signal: Signal, position: SourceOffset) -> SnapshotWork:
    """The snapshot that a signal asks for in the middle of the stream; its filters are whole SELECT statements."""
    names = signal.names() or []
    tables = [
        (schema, table)
        for schema, table in parts.captured()
        if any(re.fullmatch(name.replace('"', ""), f"{schema}.{table}") for name in names)
    ]
    selects = {f"{s}.{t}": text for s, t in tables if (text := condition_for(signal, f"{s}.{t}"))}
    _log.info("blocking snapshot asked for", connector=parts.config.name, signal=signal.id, tables=names)
    return SnapshotWork(tables, catch_up=position, selects=selects, blocking=True)
