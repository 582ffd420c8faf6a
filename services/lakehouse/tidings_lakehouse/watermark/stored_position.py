"""How far a connector has come, by the source offset that its worker stores, in Kafka Connect's form.

A worker stores an offset when Kafka has everything before it, so the position of a database at rest is known without a
transaction, a heartbeat or a change of anything: it is what a watermark needs behind a snapshot that no END follows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf

from tidings_envelope.commit_number import checked, commit_position
from tidings_envelope.errors import DecodeError
from tidings_envelope.gtid import gtid_of
from tidings_lakehouse.spark.kafka import read_all
from tidings_lakehouse.spark.kafka_login import KafkaLogin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = "tidings_history"
"""In offsets that our capture stores: its `lsn_proc` moves on between transactions, real Debezium's may be of a row."""


_NUMBER = "tidings_commit"
"""In offsets of MySQL that our capture stores: the number of the last commit (`tidings_envelope.commit_number`)."""


def position_of(value: str | None, domain: int | None = None) -> int | None:
    """LSN up to which everything that was committed is on the topics, by a stored offset; None when it does not say.

    An offset of a snapshot that goes on does not, and real Debezium's only by the last commit that it has seen. MariaDB's
    names the transactions that are complete, and MySQL's has the number of the last of them.

    Args:
        domain: MariaDB's replication domain, where it is known.
    """
    offset = _object(value)
    if offset.get("snapshot") or offset.get("snapshot_completed") is False:
        return None
    if isinstance(number := offset.get(_NUMBER), int):
        try:
            return commit_position(checked(number))
        except DecodeError:
            return None
    if isinstance(gtids := offset.get("gtids"), str):
        return _commit_position(gtids, domain)
    if (
        offset.get("messageType") in {"INSERT", "UPDATE", "DELETE", "TRUNCATE", "MESSAGE"}
        or _OURS not in offset
    ):
        found = offset.get("lsn_commit")
    else:
        found = offset.get("lsn_proc")
    return found if isinstance(found, int) and found > 0 else None


def _commit_position(gtids: str, domain: int | None) -> int | None:
    """Of ``0-1-42,7-1-3``: that of the source's domain, or the only one."""
    try:
        found = [gtid_of(text.strip()) for text in gtids.split(",")]
    except DecodeError:
        return None
    if domain is not None:
        found = [gtid for gtid in found if gtid.domain == domain]
    return found[0].commit_position if len(found) == 1 else None


def stored_position(
    session: SparkSession, login: KafkaLogin, topic: str, source: str, domain: int | None
) -> int | None:
    """The position that was stored last for a source; None when there is none, or it says nothing."""
    records = read_all(session, login, topic)
    server = sf.get_json_object(sf.col("key").cast("string"), "$[1].server")
    newest = sf.max_by(sf.col("value").cast("string"), sf.struct("timestamp", "partition", "offset"))
    return position_of(records.where(server == source).agg(newest).collect()[0][0], domain)


def _object(value: str | None) -> dict[str, Any]:
    try:
        found = json.loads(value or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
