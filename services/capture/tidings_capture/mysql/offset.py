"""The stored position, as Debezium's connectors of MariaDB and MySQL write it, and what we add to be exact on another server too. Pure.

``gtids`` names the transactions that are complete, and is not there where a MySQL names none (``gtid_mode=OFF``); where one was read in part, ``event`` and ``row`` say how many of its
events, and of the rows of the next one, were read. Another server may cut the same rows into other events, so that
``tidings_rows`` has the number of its rows, by transaction: it counts where it is there. ``tidings_prepared`` has the distributed
transactions (XA) whose rows lie before the position, and are not committed yet.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tidings_capture.cdc.incremental.state import FIELDS
from tidings_capture.mysql.binlog.file_position import FilePosition
from tidings_capture.mysql.binlog.position import LogPosition, TransactionId
from tidings_connect.errors import OffsetError
from tidings_envelope import commit_number
from tidings_envelope.gtid import ROWS

_ROWS: Final = "tidings_rows"
_DONE: Final = "tidings_snapshot_done"
_PREPARED: Final = "tidings_prepared"
COMMIT: Final = "tidings_commit"
"""The field of `Offset.commit`."""
_PART: Final = re.compile(r"(.+):(\d{1,18})")
_ENTRY: Final = re.compile(r"(\d+-[0-9a-f]*-[0-9a-f]*):([^@;]+)@([^;]*)")
_HINT: Final = "correct it with PATCH /connectors/{name}/offsets, or delete it"


class Places(Protocol):
    """What reads the texts of places and transactions (`Flavour`). All raise ValueError."""

    def gtid(self, text: str) -> Any:
        """A transaction's id."""
        ...

    def position(self, text: str) -> LogPosition:
        """A place."""
        ...

    def stored_position(self, gtids: Any, file: str, position: int) -> LogPosition:
        """That of an offset."""
        ...


Prepared = Mapping[str, tuple[TransactionId, LogPosition]]
"""Distributed transactions by their ids: that which prepares it, and the place before."""


@dataclass(frozen=True, slots=True)
class Offset:
    """Where a task goes on."""

    gtids: LogPosition
    file: str = ""
    position: int = 0
    """Where the next transaction begins in the file."""
    seconds: int = 0
    server_id: int = 0
    in_snapshot: bool = False
    events: int = 0
    rows: int = 0
    """Of a transaction that was read in part, by Debezium: its events, and the rows of the next one."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """Rows that were read, by the transaction's GTID."""
    incremental: Mapping[str, Any] | None = None
    """The fields of an incremental snapshot that is under way (`cdc.incremental.state`)."""
    done: tuple[str, ...] = ()
    """Tables that a snapshot which is under way has sent as a whole, as ``database.table``."""
    prepared: Prepared = field(default_factory=dict)
    """Distributed transactions that are prepared only, by their ids: see `prepared`."""
    commit: int = 0
    """The last number of the transactions that are complete (`tidings_envelope.commit_number`); 0: they have no numbers, or none is
    known."""

    @property
    def commit_position(self) -> int | None:
        """Where the last of them was committed, as the pipeline orders commits; None: it cannot be told."""
        if self.commit:
            return commit_number.commit_position(self.commit)
        sequence = self.gtids.sequence
        return None if sequence is None else sequence * ROWS

    def place_like(self, other: LogPosition) -> LogPosition:
        """The place, named as another one is: a connector that began by file and position stays so when the server has GTIDs."""
        return self.gtids if other.has_ids else FilePosition(self.file, self.position)

    def stored(self) -> dict[str, Any]:
        """As JSON."""
        made: dict[str, Any] = {
            "ts_sec": self.seconds,
            "file": self.file,
            "pos": self.position,
        }
        if self.gtids.has_ids:
            made["gtids"] = str(self.gtids)
        if self.in_snapshot:
            made["snapshot"] = "INITIAL"
        if self.done:
            made[_DONE] = json.dumps(self.done)
        if self.server_id:
            made["server_id"] = self.server_id
        if self.events:
            made["event"] = self.events
        if self.rows:
            made["row"] = self.rows
        if self.parts:
            made[_ROWS] = ",".join(f"{gtid}:{count}" for gtid, count in self.parts.items())
        if self.prepared:
            made[_PREPARED] = write_prepared(self.prepared)
        if self.commit:
            made[COMMIT] = self.commit
        return made | dict(self.incremental or {})


def read_offset(stored: Mapping[str, Any], places: Places) -> Offset:
    """A stored position.

    Raises:
        OffsetError: it cannot be understood.
    """
    gtids = stored.get("gtids")
    file, position = stored.get("file", ""), stored.get("pos", 0)
    numbers = [stored.get(name, 0) for name in ("ts_sec", "server_id", "event", "row", COMMIT)]
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in [position, *numbers])
    if not isinstance(file, str) or not whole:
        raise OffsetError("a field of the stored offset is not of its type", hint=_HINT)
    try:
        complete = places.stored_position(gtids, file, position)
    except ValueError as error:
        raise OffsetError(f"gtids of the stored offset: {error}", hint=_HINT) from error
    parts = {}
    for part in filter(None, str(stored.get(_ROWS, "")).split(",")):
        match = _PART.fullmatch(part)
        try:
            parts[str(places.gtid(match[1] if match else ""))] = int(match[2] if match else 0)
        except ValueError:
            raise OffsetError(f"{_ROWS} of the stored offset cannot be understood", hint=_HINT) from None
    try:
        prepared = read_prepared(str(stored.get(_PREPARED, "")), places)
    except ValueError as error:
        raise OffsetError(f"{_PREPARED} of the stored offset: {error}", hint=_HINT) from error
    seconds, server, events, rows, commit = numbers
    in_snapshot = stored.get("snapshot") not in {None, False, "false"}
    incremental = {name: stored[name] for name in FIELDS if name in stored} or None
    return Offset(
        complete,
        file,
        position,
        seconds,
        server,
        in_snapshot,
        events,
        rows,
        parts,
        incremental,
        _done(stored),
        prepared,
        commit,
    )


def _done(stored: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        found = json.loads(stored.get(_DONE) or "[]")
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise OffsetError(f"{_DONE} of the stored offset cannot be understood", hint=_HINT)
    return tuple(found)


def write_prepared(prepared: Prepared) -> str:
    """As a text: id, GTID, and the position before it."""
    return ";".join(f"{xid}:{gtid}@{before}" for xid, (gtid, before) in prepared.items())


def read_prepared(text: str, places: Places) -> dict[str, tuple[TransactionId, LogPosition]]:
    """From `write_prepared`.

    Raises:
        ValueError: it is not that.
    """
    found: dict[str, tuple[TransactionId, LogPosition]] = {}
    for part in filter(None, text.split(";")):
        match = _ENTRY.fullmatch(part)
        if match is None:
            raise ValueError("a prepared transaction is written <xid>:<gtid>@<position>")
        found[match[1]] = (places.gtid(match[2]), places.position(match[3]))
    return found
