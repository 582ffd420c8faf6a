"""The history that a stored position is a position in: which server, which timeline of it, what its publication held.

An LSN alone says little. After a restore or a failover the same numbers stand for other changes, and a publication that
was without a table for a minute leaves no trace in the stream. So every offset holds, in a field of ours
(``tidings_history``) that Debezium ignores, what `losses` compares at the next start. Timelines: PostgreSQL
documentation, "Timelines" and "Streaming Replication Protocol" (IDENTIFY_SYSTEM, TIMELINE_HISTORY).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson

from tidings_capture.postgres.client import Replication, Session
from tidings_envelope.position import lsn_from_text

_PUBLICATION: Final = """
SELECT oid::bigint, puballtables, concat(CASE WHEN pubinsert THEN 'i' END, CASE WHEN pubupdate THEN 'u' END,
       CASE WHEN pubdelete THEN 'd' END, CASE WHEN pubtruncate THEN 't' END)
  FROM pg_publication WHERE pubname = %s
"""
_MEMBERS: Final = """
WITH publication AS (SELECT oid FROM pg_publication WHERE pubname = %s),
     listed AS (SELECT r.prrelid AS relid, r.oid AS member FROM pg_publication_rel r, publication p WHERE r.prpubid = p.oid
                {schemas}),
     member AS (SELECT relid, member FROM listed
                UNION SELECT t.relid, l.member FROM listed l, pg_partition_tree(l.relid) t)
SELECT n.nspname::text, c.relname::text, c.oid::bigint, m.ids
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       LEFT JOIN (SELECT relid, array_agg(member::bigint ORDER BY member) AS ids FROM member GROUP BY relid) m
              ON m.relid = c.oid
 WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_'
"""
_SCHEMAS: Final = """
                UNION ALL SELECT c.oid, s.oid FROM pg_publication_namespace s, publication p, pg_class c
                 WHERE s.pnpubid = p.oid AND c.relnamespace = s.pnnspid AND c.relkind IN ('r', 'p')
"""
_FIELD_NAMES: Final = ("system", "timeline", "publication", "operations", "tables")


@dataclass(frozen=True, slots=True)
class Publication:
    """What a publication is, by the ids of its rows in the catalog: one that was made anew has others."""

    id: int
    all_tables: bool
    operations: str
    """Of ``iudt``."""
    members: Mapping[tuple[str, str], tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """For each table (by schema and name): its id, and the ids of what puts it in; none where it is not published."""


@dataclass(frozen=True, slots=True)
class History:
    """What is stored. Ids are PostgreSQL's."""

    system: str
    """The cluster's ``system_identifier``."""
    timeline: int
    publication: int | None = None
    operations: str = ""
    tables: tuple[int, ...] = ()
    """Pairs: a captured table's id, and what put it into the publication; none where that has all tables."""

    def stored(self) -> str:
        """The field's value in an offset: JSON as text, because Kafka Connect discards an offset with a value that is no
        primitive, and Debezium would begin anew."""
        return orjson.dumps({name: getattr(self, name) for name in _FIELD_NAMES}).decode()


def history_of(value: object) -> History | None:
    """What an offset holds; None where it holds nothing, as Debezium's, or nothing that can be understood."""
    try:
        value = orjson.loads(value) if isinstance(value, str) else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict):
        return None
    tables, timeline, publication = value.get("tables"), value.get("timeline"), value.get("publication")
    if not isinstance(timeline, int) or not isinstance(tables, list):
        return None
    return History(
        str(value.get("system")),
        timeline,
        publication if isinstance(publication, int) else None,
        str(value.get("operations", "")),
        tuple(tables),
    )


def read_publication(session: Session, name: str) -> Publication | None:
    """A publication as it is now; None when there is none."""
    rows = session.rows(_PUBLICATION, (name,))
    if not rows:
        return None
    id_, all_tables, operations = rows[0]
    if all_tables:
        return Publication(id_, all_tables=True, operations=operations)
    query = _MEMBERS.format(schemas=_SCHEMAS if session.server_version >= 150000 else "")
    members = {
        (schema, table): (oid, tuple(ids or ())) for schema, table, oid, ids in session.rows(query, (name,))
    }
    return Publication(id_, all_tables=False, operations=operations, members=members)


def history_now(
    replication: Replication, publication: Publication | None, captured: Iterable[tuple[str, str]]
) -> History:
    """The history as it is now."""
    system, timeline = replication.identify()
    return with_publication(History(system, timeline), publication, captured)


def with_publication(
    history: History, publication: Publication | None, captured: Iterable[tuple[str, str]]
) -> History:
    """The same server with a publication as it is now. Pure."""
    if publication is None:
        return History(history.system, history.timeline)
    found = (publication.members[table] for table in captured if table in publication.members)
    pairs = sorted((oid, ids[0]) for oid, ids in found if ids)
    return History(
        history.system,
        history.timeline,
        publication.id,
        publication.operations,
        tuple(number for pair in pairs for number in pair),
    )


def left_out(
    history: History, publication: Publication | None, captured: Iterable[tuple[str, str]]
) -> list[tuple[str, str]] | None:
    """The captured tables whose changes a publication has not held all the time since; None: all of them. Pure.

    A table that was dropped from the database has lost nothing, and one that is new in it has no history.
    """
    if history.publication is None:
        return []
    if publication is None or publication.id != history.publication:
        return None
    if set(history.operations) - set(publication.operations):
        return None
    if publication.all_tables:
        return []
    former = dict(zip(history.tables[::2], history.tables[1::2], strict=True))
    known = ((table, *publication.members[table]) for table in captured if table in publication.members)
    return [table for table, oid, ids in known if oid in former and former[oid] not in ids]


def switch_point(content: str, timeline: int) -> int | None:
    """Where a server's history left a timeline, from its timeline history file; None when it was never on it. Pure.

    Each line is the timeline, the LSN at which it was left, and a reason; PostgreSQL's ``timeline.c``.
    """
    for line in content.splitlines():
        found = re.match(r"\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+)", line)
        if found is not None and int(found[1]) == timeline:
            return lsn_from_text(found[2])
    return None
