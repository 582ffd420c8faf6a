"""What a task is to do when it starts, as `start` decides it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidings_capture.postgres.offset import SourceOffset


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
    afterwards: Mapping[str, Any] | None = None
    """An incremental snapshot that the stream begins with behind this one, as offsets hold it."""
    blocking: bool = False
    """Asked for by a signal, in the middle of the stream."""


@dataclass(frozen=True, slots=True)
class Start:
    """At most one of them; neither: there is nothing to do."""

    resume: SourceOffset | None = None
    snapshot: SnapshotWork | None = None
