"""What a schema history says of tables: the fields of its records that are ours, and how they are read at a place of the log.

See `structures` for why they are there. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

import orjson

from tidings_capture.mysql.binlog.position import LogPosition, TransactionId
from tidings_capture.mysql.offset import Places
from tidings_capture.mysql.schemas.catalog import Column, Table
from tidings_capture.mysql.schemas.ddl import touches
from tidings_connect.errors import OffsetError

Name = tuple[str, str]
"""Database and table."""
Found = dict[Name, Table | None]
"""None: nobody knows its columns, or it is gone."""
TABLES: Final = "tidings_tables"
"""The field of a history's record with tables."""
GTID: Final = "tidings_gtid"
"""And that with the definition's, where it is of one."""
ANEW: Final = "tidings_anew"
"""And that which says that a snapshot begins: what stands before it is of no use at its place, nor behind it."""
PLACE: Final = "tidings_place"
"""And that with the place of tables: ``pos`` may lie in the head of the transaction behind it."""
NOTHING_ALTERED: Final[Mapping[str, Any]] = {TABLES: {}}
"""What marks records that only say once more what tables are."""


def kept_at(
    records: Iterable[Mapping[str, Any]], place: LogPosition, places: Places
) -> tuple[Found, dict[str, Found]]:
    """What a history says of tables at a place of the log, and of definitions behind it by their GTIDs.

    A table that was altered by a statement of which it does not say what became of it is in neither.
    """
    known: Found = {}
    later: dict[str, Found] = {}
    anew: LogPosition | None = None
    for record in records:
        before = _place(record, places, place)
        is_before = before is None or place.contains(before)
        gtid = _definition(record, places, place)
        if is_before and record.get(ANEW):
            known, later, anew = {}, {}, before
        elif anew is not None and _is_told_by(anew, record, before, gtid):
            continue
        kept = record.get(TABLES)
        found = {_name(told): None if one is None else _table(one) for told, one in (kept or {}).items()}
        statement, database = str(record.get("ddl") or ""), str(record.get("databaseName") or "")
        if kept is None and GTID not in record:
            for names in (known, *later.values()) if is_before else later.values():
                for name in [name for name in names if touches(statement, database, name)]:
                    del names[name]
        if is_before if gtid is None else place.holds(gtid):
            known |= found
        elif gtid is not None:
            later[record[GTID]] = found
    return known, later


def _is_told_by(
    snapshot: LogPosition, record: Mapping[str, Any], before: LogPosition | None, gtid: TransactionId | None
) -> bool:
    """Whether a record was written when the log was read up to a snapshot, which knows itself what tables had become."""
    if gtid is not None:
        return snapshot.holds(gtid)
    return PLACE in record and before is not None and snapshot.contains(before)


def _definition(record: Mapping[str, Any], places: Places, like: LogPosition) -> TransactionId | None:
    """That which a record is of, where it is named as the transactions before a place are."""
    if GTID not in record:
        return None
    gtid: TransactionId = places.gtid(record[GTID])
    return gtid if (gtid.shown is not None) == like.has_ids else None


def _place(record: Mapping[str, Any], places: Places, like: LogPosition) -> LogPosition | None:
    """Where a record stands; None: it was written when the connector went on by file and position, and now it does by GTIDs."""
    try:
        if PLACE in record:
            found = places.position(record[PLACE])
        else:
            told = record.get("position") or {}
            gtids = told.get("gtids") if like.has_ids else None
            found = places.stored_position(gtids, str(told.get("file") or ""), int(told.get("pos") or 0))
        return found if found.has_ids == like.has_ids else None
    except (ValueError, TypeError, AttributeError):
        raise OffsetError(
            "a record of the schema history has no position that can be understood",
            hint="is schema.history.internal.kafka.topic the topic of a connector of this database?",
        ) from None


def written(found: Found) -> dict[str, Any]:
    return {
        orjson.dumps(name).decode(): None if known is None else _stored(known)
        for name, known in found.items()
    }


def _stored(known: Table) -> dict[str, Any]:
    """Without empty comments: what knows none of them reads it, too."""
    found = asdict(known)
    for column in found["columns"]:
        if not column["comment"]:
            del column["comment"]
    return found


def _name(told: str) -> Name:
    database, name = orjson.loads(told)
    return database, name


def _table(found: Mapping[str, Any]) -> Table:
    parts = {
        **found,
        "columns": tuple(Column(**column) for column in found["columns"]),
        "primary": tuple(found["primary"]),
        "unique": tuple(found["unique"]),
    }
    return Table(**parts)
