"""Which table each topic has, for ever: `tidings.topics`.

A topic gets the shortest of its names that is free when it is first seen: ``orders``, then ``public_orders``, then the whole
topic's. It keeps that, whatever comes later, so a name's owner does not depend on what else there is now.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import types as st

from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.tables import TOPIC_PROPERTY, Table, frame_of
from tidings_lakehouse.topics import (
    BUSINESS,
    TECHNICAL,
    TOPICS,
    business_table,
    identifier,
    log_of,
    technical_table,
)
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = get_logger("tidings_lakehouse.tables.names")
SCHEMA = st.StructType(
    [
        st.StructField("namespace", st.StringType()),
        st.StructField("topic", st.StringType()),
        st.StructField("table_name", st.StringType()),
        st.StructField("since", st.TimestampType()),
    ]
)


def candidates(namespace: str, topic: str) -> list[str]:
    """The names that a topic's table may have, the preferred one first; the last one is no other topic's."""
    parts = topic.split(".")
    plain = technical_table(topic) if namespace == TECHNICAL else business_table(topic)
    digest = hashlib.sha256(topic.encode()).hexdigest()[:8]
    wider = [identifier("_".join(one)) for one in (parts[-2:], parts)] if namespace == TECHNICAL else []
    whole = identifier("_".join(parts))
    return list(
        dict.fromkeys(
            [
                plain,
                *[f"{namespace}.{name}" for name in wider],
                f"{namespace}.{whole}",
                f"{namespace}.{whole}_{digest}",
            ]
        )
    )


_MERGED_LATER = "tidings.merged.later"
"""Property of the table: some current states have been, or are, merged later than their logs are written."""


class Names:
    """The topics' tables; for the threads of both streams."""

    def __init__(self, session: SparkSession, commits: Commits) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._table = Table(session, TOPICS, "", commits)
        is_new = not self._table.exists
        self._table.ensure(SCHEMA)
        self._names = known_names(session)
        self._used = {name for namespace in (TECHNICAL, BUSINESS) for name in _tables(session, namespace)}
        for (namespace, _), name in self._names.items():
            self._used.update(_all(namespace, name))
        if is_new:
            self._keep(_former(session))

    def of(self, namespace: str, topic: str) -> str:
        """The table of a topic: that of the current state, or of events."""
        self.assign(namespace, [topic])
        return self._names[namespace, topic]

    def known(self, namespace: str) -> dict[str, str]:
        """By topic, the tables that there are."""
        with self._lock:
            return {topic: name for (one, topic), name in self._names.items() if one == namespace}

    def were_merged_later(self, *, are_now: bool) -> bool:
        """Whether some table's changes may wait to be merged; once that may be, it stays known.

        Args:
            are_now: by the settings.
        """
        before = bool(self._table.property(_MERGED_LATER))
        if are_now and not before:
            self._table.set_property(_MERGED_LATER, "true")
        return before or are_now

    def assign(self, namespace: str, topics: Iterable[str]) -> None:
        """Give every topic that has none its name, and keep them in one commit."""
        with self._lock:
            new = {}
            for topic in sorted(topics):
                if (namespace, topic) not in self._names:
                    new[namespace, topic] = self._free(namespace, topic)
                    self._used.update(_all(namespace, new[namespace, topic]))
            self._keep(new)

    def _free(self, namespace: str, topic: str) -> str:
        choice = candidates(namespace, topic)
        found = next((name for name in choice if not self._used & _all(namespace, name)), choice[-1])
        if found != choice[0]:
            _LOG.warning(
                "a topic's table has a longer name, since the short one is another's",
                topic=topic,
                table=found,
                taken=choice[0],
            )
        return found

    def _keep(self, new: dict[tuple[str, str], str]) -> None:
        if not new:
            return
        now = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
        rows = [
            {"namespace": namespace, "topic": topic, "table_name": name, "since": now}
            for (namespace, topic), name in new.items()
        ]
        self._table.append(frame_of(self._session, rows, SCHEMA))
        self._names |= new
        for (namespace, _), name in new.items():
            self._used.update(_all(namespace, name))


def known_names(session: SparkSession) -> dict[tuple[str, str], str]:
    """By namespace and topic, the tables that are kept; of a lakehouse of an earlier release there are none."""
    if not session.catalog.tableExists(TOPICS):
        return {}
    rows = session.table(TOPICS).orderBy("since").collect()
    return {(row["namespace"], row["topic"]): row["table_name"] for row in rows}


def _former(session: SparkSession) -> dict[tuple[str, str], str]:
    """What tables there are of a release that did not keep their names: each had the shortest."""
    found = {}
    for namespace in (TECHNICAL, BUSINESS):
        for table in _tables(session, namespace):
            rows = session.sql(f"SHOW TBLPROPERTIES {table} ('{TOPIC_PROPERTY}')").collect()
            topic = rows[0]["value"] if rows else ""
            if topic and candidates(namespace, topic)[0] in {table, table.removesuffix("_log")}:
                found[namespace, topic] = candidates(namespace, topic)[0]
    return found


def _tables(session: SparkSession, namespace: str) -> list[str]:
    if not session.catalog.databaseExists(namespace):
        return []
    return [f"{namespace}.{row['tableName']}" for row in session.sql(f"SHOW TABLES IN {namespace}").collect()]


def _all(namespace: str, name: str) -> set[str]:
    """Every table that a topic with this name may have."""
    return {name, log_of(name)} if namespace == TECHNICAL else {name}
