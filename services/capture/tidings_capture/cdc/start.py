"""What a task is to do when it starts: one table of decisions, which asks nobody.

A database's connector gathers what it rests on (what is stored, whether the log can be read on from there, what was chosen for
a loss) and does what comes out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar

from tidings_capture.cdc.snapshots.options import SnapshotOptions

P = TypeVar("P")


class Stored(Enum):
    """What the offsets topic has of a connector."""

    NOTHING = auto()
    INTERRUPTED = auto()
    """Debezium's offset of a snapshot that it did not finish: no position to go on from."""
    PART = auto()
    """A position, and the tables that an interrupted snapshot has sent as a whole."""
    POSITION = auto()


class Begin(Enum):
    """What a task begins with."""

    REST = auto()
    """Nothing: there is no work."""
    STREAM = auto()
    """The stream, from the stored position."""
    STREAM_WITHOUT_SNAPSHOT = auto()
    """As `STREAM`; a snapshot that was interrupted is not finished, because none is wanted any more."""
    STREAM_FROM_NOW = auto()
    """The stream, from where the log is now."""
    SNAPSHOT = auto()
    """A snapshot of every table; nothing was sent before."""
    SNAPSHOT_BEHIND_LOG = auto()
    """A snapshot of every table, behind what the log still has: part of it was sent."""
    SNAPSHOT_ALONE = auto()
    """A snapshot of the tables that are left, without the stream."""
    SNAPSHOT_BEHIND_STREAM = auto()
    """A snapshot of the tables that are left, behind the stream from the stored position."""
    RECOVER = auto()
    """What was chosen for a loss."""


_NO_SNAPSHOT: Final = frozenset({"fail", "continue"})
"""Choices for a loss that ask for no snapshot; one that a loss has asked for is taken in every mode."""


def begin(options: SnapshotOptions, stored: Stored, *, log_kept: bool, lost: bool, loss_choice: str) -> Begin:
    """What to do, by ``snapshot.mode`` and what is known.

    Args:
        log_kept: whether the database has kept the log for this connector, from some position on.
        lost: whether what follows the stored position cannot be had in full.
        loss_choice: what is done about a loss, now or when an interrupted recovery began.
    """
    if stored in {Stored.NOTHING, Stored.INTERRUPTED}:
        return _first(options, interrupted=stored is Stored.INTERRUPTED, log_kept=log_kept)
    if not options.streams:
        return Begin.SNAPSHOT_ALONE if stored is Stored.PART or options.always else Begin.REST
    if lost:
        return Begin.RECOVER
    if options.never and loss_choice in _NO_SNAPSHOT:
        return Begin.STREAM if stored is Stored.POSITION else Begin.STREAM_WITHOUT_SNAPSHOT
    if stored is Stored.PART or options.always:
        return Begin.SNAPSHOT_BEHIND_STREAM
    return Begin.STREAM


def _first(options: SnapshotOptions, *, interrupted: bool, log_kept: bool) -> Begin:
    if options.never:
        return Begin.STREAM_FROM_NOW if options.streams else Begin.REST
    # Of an interrupted snapshot some rows were sent: they are older than the log's changes, or among them.
    if interrupted and log_kept and options.streams:
        return Begin.SNAPSHOT_BEHIND_LOG
    return Begin.SNAPSHOT


@dataclass(frozen=True, slots=True)
class SnapshotWork(Generic[P]):
    """A snapshot that is to be taken."""

    tables: list[tuple[str, str]]
    """Schema and name, in order; without those that are `done`."""
    catch_up: P | None = None
    """From where the log is streamed up to the snapshot first; None: nothing was sent before."""
    done: tuple[str, ...] = ()
    """Tables that an interrupted snapshot has sent as a whole."""
    selects: dict[str, str] = field(default_factory=dict)
    """What is read of a table, by ``schema.table``, instead of everything."""
    afterwards: Mapping[str, Any] | None = None
    """An incremental snapshot that the stream begins with behind this one, as offsets hold it."""
    blocking: bool = False
    """Asked for by a signal, in the middle of the stream."""


@dataclass(frozen=True, slots=True)
class Start(Generic[P]):
    """At most one of them; neither: there is nothing to do."""

    resume: P | None = None
    snapshot: SnapshotWork[P] | None = None


def rest_of(
    tables: list[tuple[str, str]],
    done: tuple[str, ...],
    catch_up: P | None,
    selects: Mapping[str, str],
) -> SnapshotWork[P]:
    """The snapshot of the tables that were not sent as a whole."""
    left = [(schema, table) for schema, table in tables if f"{schema}.{table}" not in done]
    return SnapshotWork(left, catch_up, done, dict(selects))
