"""Finds out at the start of a task whether something may have been lost since its offset was stored. Never silently.

Compared are the slot, the server's history and the publication with what the offset says. What is found is an error
that says what happened, since where, and the choices; `start` does what ``on.slot.loss`` has chosen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidings_capture.postgres.errors import HistoryError, LossError, PublicationError, SlotError
from tidings_capture.postgres.offsets.history import History, Publication, left_out, switch_point
from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_capture.postgres.server.setup import SlotState
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.wal.options import ON_LOSS, LossChoice
from tidings_envelope.position import lsn_to_text

SLOT_MISSING: Final = "slot_missing"
SLOT_LOST: Final = "slot_lost"
SLOT_MOVED: Final = "slot_moved"
SERVER_BEHIND: Final = "server_behind"
OTHER_SERVER: Final = "other_server"
TIMELINE: Final = "timeline"
PUBLICATION: Final = "publication"
REASONS: Final = (SLOT_MISSING, SLOT_LOST, SLOT_MOVED, SERVER_BEHIND, OTHER_SERVER, TIMELINE, PUBLICATION)


@dataclass(frozen=True, slots=True)
class Found:
    """What the server says when a task starts."""

    slot: SlotState | None
    server_lsn: int
    history: History
    publication: Publication | None
    timeline_history: Callable[[int], str]
    """The history file of a timeline."""


def choice_of(config: ConnectorConfig) -> LossChoice:
    """What is done about a loss."""
    return config.wal.on_loss or ("snapshot" if config.snapshot.when_lost else "fail")


def choices(config: ConnectorConfig, stored: str) -> str:
    """What a person can do about a loss."""
    return (
        f"changes after {stored} may be lost. Restart the connector with {ON_LOSS}=incremental (go on, and read the "
        "tables again meanwhile; needs signal.data.collection or read.only=true), snapshot (read everything again "
        "first; as snapshot.mode=when_needed does), or continue (accept it)"
        + ("" if config.wal.on_loss is None else f". It is set to {config.wal.on_loss}")
    )


def on_its_timeline(offset: SourceOffset, found: Found, config: ConnectorConfig) -> SourceOffset:
    """The offset in the server's present history; another one where the server was promoted since. Pure.

    Raises:
        HistoryError: the server is another one, or has left its history before the offset.
    """
    former, now = offset.history, found.history
    stored = lsn_to_text(offset.done_lsn)
    if former is None or (former.system, former.timeline) == (now.system, now.timeline):
        return offset
    if former.system != now.system:
        raise HistoryError(
            f"the server is another one: its system identifier is {now.system}, but the stored offset {stored} is of "
            f"{former.system}",
            reason=OTHER_SERVER,
            hint=choices(config, stored),
        )
    left = switch_point(found.timeline_history(now.timeline), former.timeline)
    if left is None:
        raise HistoryError(
            f"the server is on timeline {now.timeline}, which does not come from timeline {former.timeline} of the "
            f"stored offset {stored}",
            reason=TIMELINE,
            hint=choices(config, stored),
        )
    if max(offset.done_lsn, offset.lsn) <= left:
        return offset
    if not offset.in_transaction and offset.commit_lsn is not None and offset.commit_lsn <= left:
        # No change after that point was sent, only WAL that holds none for us: the new timeline is read from there.
        return replace(offset, done_lsn=left, lsn=left)
    raise HistoryError(
        f"the server left timeline {former.timeline} at {lsn_to_text(left)}, before the stored offset {stored}: it was "
        "restored to an earlier point, or a replica was promoted that had not got everything. Records after "
        f"{lsn_to_text(left)} tell of changes that the server does not have, and its new ones have the same LSNs",
        reason=TIMELINE,
        hint=choices(config, lsn_to_text(left)),
    )


def check_slot(
    slot: SlotState | None, offset: SourceOffset, config: ConnectorConfig, server_lsn: int
) -> None:
    """Make sure that streaming from the stored offset misses nothing. Pure.

    Raises:
        SlotError: the slot is missing, lost, or starts after the stored offset.
        HistoryError: the server is older than the offset.
    """
    stored = lsn_to_text(offset.done_lsn)
    hint = choices(config, stored)
    if slot is None:
        raise SlotError(
            f"slot.name={config.slot} does not exist any more, but the stored offset is at {stored}: it was dropped, or "
            "the server was promoted or restored without it (slot.failover=true keeps it on PostgreSQL 17 and newer)",
            reason=SLOT_MISSING,
            hint=hint,
        )
    if slot.wal_status == "lost":
        raise SlotError(
            f"slot.name={config.slot} is lost: PostgreSQL removed WAL after the stored offset {stored}",
            reason=SLOT_LOST,
            hint=hint,
        )
    if offset.done_lsn > server_lsn:
        raise HistoryError(
            f"the stored offset {stored} is ahead of the server's WAL at {lsn_to_text(server_lsn)}: the server was "
            "restored to an earlier point, or it is another one",
            reason=SERVER_BEHIND,
            hint=hint,
        )
    if slot.confirmed_lsn > offset.done_lsn:
        raise SlotError(
            f"slot.name={config.slot} is confirmed up to {lsn_to_text(slot.confirmed_lsn)}, past the stored offset "
            f"{stored}: it was recreated or moved by somebody else",
            reason=SLOT_MOVED,
            hint=hint,
        )


def check_publication(
    history: History | None,
    publication: Publication | None,
    captured: Sequence[tuple[str, str]],
    config: ConnectorConfig,
    stored: str,
) -> None:
    """Make sure that the publication has held every table since the history was stored. Pure.

    Raises:
        PublicationError: it was dropped or made anew, publishes fewer operations, or has been without a table.
    """
    if history is None:
        return
    missing = left_out(history, publication, captured)
    if missing == []:
        return
    if missing is None:
        what = (
            "does not exist any more"
            if publication is None
            else "was made anew, or publishes fewer operations"
        )
        text = f"publication.name={config.publication} {what}"
    else:
        names = ", ".join(f"{schema}.{table}" for schema, table in missing)
        text = f"publication.name={config.publication} is, or has been, without {names}"
    raise PublicationError(
        f"{text}, since the stored offset {stored}: changes in between were not published",
        reason=PUBLICATION,
        tables=missing,
        hint=choices(config, stored),
    )


def find_losses(
    offset: SourceOffset, found: Found, captured: Sequence[tuple[str, str]], config: ConnectorConfig
) -> tuple[SourceOffset, LossError | None]:
    """The offset to go on from, and the first thing that is wrong with doing so, the worst first."""
    try:
        offset = on_its_timeline(offset, found, config)
        check_slot(found.slot, offset, config, found.server_lsn)
        stored = lsn_to_text(offset.done_lsn)
        check_publication(offset.history, found.publication, captured, config, stored)
    except LossError as error:
        return offset, error
    return offset, None
