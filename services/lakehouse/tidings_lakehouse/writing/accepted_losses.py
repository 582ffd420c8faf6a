"""`tidings.accepted_losses`: records of topics that are set aside which nobody waits for any more, since a person has said so.

`tidings-lakehouse accept-loss` writes the table and the job reads it, so the job may run meanwhile. A row is never removed: the
table says for good what the lake lacks.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidings_lakehouse.errors import LossError
from tidings_lakehouse.reading.rows import Rows
from tidings_lakehouse.spark.kafka import Brokers
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.names import known_names
from tidings_lakehouse.tables.tables import Table, frame_of
from tidings_lakehouse.topics import ACCEPTED_LOSSES, TECHNICAL, log_of
from tidings_lakehouse.writing.losses import SCHEMA, Loss
from tidings_lakehouse.writing.set_aside import Aside, asides

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Statement:
    """What accepting the loss of a topic means."""

    tables: tuple[str, ...]
    """That will lack the records; none when the topic never had one."""
    is_technical: bool
    losses: tuple[Loss, ...]

    @property
    def rows(self) -> Rows:
        """The losses, to be printed; "records" counts offsets, of which some may never have held a record."""
        return Rows(
            ("topic", "partition", "lost from offset", "read again from", "records at most"),
            [
                (
                    one.topic,
                    one.partition,
                    one.first,
                    one.next,
                    None if one.next is None else one.next - one.first,
                )
                for one in self.losses
            ],
            (False, True, True, True, True),
        )

    def told(self, *, is_accepted: bool) -> str:
        """What this means, for a person."""
        tables = " and ".join(self.tables) or "the lake"
        if not is_accepted:
            return f"{tables} will lack these records for good. Nothing is changed yet: --yes accepts it.\n"
        again = (
            "what the rows are now comes by an incremental snapshot of the table, deletes included"
            if self.is_technical
            else "lost events do not come again, unless the translator's correct --publish sends them"
        )
        return (
            f"Accepted, and kept in {ACCEPTED_LOSSES}: {tables} will lack these records. The job goes on with the topic when it"
            f" tries it again, at the latest in an hour, or when it is started again; {again}.\n"
        )


def statement_of(session: SparkSession, brokers: Brokers, topic: str, *, to_end: bool) -> Statement:
    """What will be lost of a topic that is set aside.

    Args:
        to_end: give up everything that is on the topic now, not only what it does not have any more.

    Raises:
        LossError: the topic is not set aside, or nothing of it is lost.
    """
    found = asides(session)
    here = next(((stream, one) for stream, one in found if one.topic == topic), None)
    if here is None:
        names = ", ".join(sorted(one.topic for _, one in found))
        raise LossError(
            f"the topic {topic} is not set aside",
            hint=f"topics that are set aside: {names}" if names else "no topic is set aside",
        )
    stream, aside = here
    losses = _losses(brokers, aside, to_end=to_end)
    if not losses:
        raise LossError(
            f"nothing of {topic} is lost: all that is to be read is on the topic",
            hint=f"it is set aside for {aside.trouble.code}: {aside.trouble.reason}; mend that, or give up what is on the"
            " topic now with --to-end",
        )
    name = known_names(session).get((stream, topic))
    is_technical = stream == TECHNICAL
    tables = () if name is None else (name, log_of(name)) if is_technical else (name,)
    return Statement(tables, is_technical, tuple(losses))


def _losses(brokers: Brokers, aside: Aside, *, to_end: bool) -> list[Loss]:
    topic, code = aside.topic, aside.trouble.code
    if not brokers.has(topic):
        known = aside.offsets or {"0": 0}
        return [
            Loss(topic, aside.topic_id, int(one), first, None, code) for one, first in sorted(known.items())
        ]
    topic_id = brokers.topic_ids([topic])[topic]
    begins = brokers.begins_of([topic])[topic]
    goes_on = brokers.ends_of([topic])[topic] if to_end else begins
    starts = begins | (dict(aside.offsets) if aside.topic_id == topic_id else {})
    return [
        Loss(topic, topic_id, int(number), starts[number], goes_on[number], code)
        for number in sorted(goes_on, key=int)
        if starts[number] < goes_on[number]
    ]


def accept(session: SparkSession, losses: Iterable[Loss]) -> None:
    """Write down that these are lost; the job goes on behind them when it tries the topic again."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
    rows = [
        {
            "topic": one.topic,
            "topic_id": one.topic_id,
            "partition": one.partition,
            "first_offset": one.first,
            "next_offset": one.next,
            "code": one.code,
            "accepted_at": now,
        }
        for one in losses
    ]
    commits = Commits(session)
    commits.mark(session)
    table = Table(session, ACCEPTED_LOSSES, "", commits)
    table.ensure(SCHEMA)
    table.append(frame_of(session, rows, SCHEMA))
