"""Finds the records of a topic that end what decodes them, by halves, so that they can be put aside and the others written.

What Avro or a schema refuses has its reason in the row (`records.failure`); here is what throws: a moment that no timestamp
has, or whatever nobody has thought of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.decoding.batches import TopicSurvey
from tidings_lakehouse.tables.troubles import trouble_of_topic

_MOST = 50
"""Records of one topic and batch; more are a trouble of the topic."""


@dataclass(frozen=True)
class Poison:
    """A record that ends its decoder."""

    partition: int
    offset: int
    reason: str


class TooMuchPoisonError(ValueError):
    """So many records of a topic end its decoder that they are no exceptions."""


class Decoder(Protocol):
    """Of the records of a topic."""

    def decode(self, records: DataFrame, poison: Sequence[Poison] = ()) -> DataFrame:
        """The rows of records, those of poison untried."""


class Decoded(Protocol):
    """The part of a batch that one topic has; what it decodes to is kept by whoever has it."""

    survey: TopicSurvey
    records: DataFrame
    """As they are on the topic."""

    @property
    def decoder(self) -> Decoder | None:
        """None when there is none that could fail."""

    def keep(self, rows: DataFrame) -> None:
        """Have rows instead of those that it has."""


D = TypeVar("D", bound=Decoded)
R = TypeVar("R")


def survey_one(one: D, survey: Callable[[list[D]], R]) -> R:
    """Survey the rows of one topic; records that end the decoder become rows that say so.

    Args:
        survey: decodes the rows, and raises what the decoder raises.
    """
    try:
        return survey([one])
    except Exception as error:
        decoder = one.decoder
        if decoder is None or trouble_of_topic(error) is None:
            raise
        poison = find_poison(one.records, one.survey.offsets, decoder.decode)
        if not poison:
            raise
        one.keep(decoder.decode(one.records, poison))
        return survey([one])


def find_poison(
    records: DataFrame, offsets: Mapping[int, tuple[int, int]], decode: Callable[[DataFrame], DataFrame]
) -> list[Poison]:
    """The records that decoding fails on.

    Args:
        records: of one topic.
        offsets: first and last one by partition.
        decode: what fails on some of them.

    Raises:
        TooMuchPoisonError: there are more than a few.
    """
    found: list[Poison] = []
    pending = [(partition, first, last) for partition, (first, last) in sorted(offsets.items())]
    while pending:
        partition, first, last = pending.pop()
        part = records.where((sf.col("partition") == partition) & sf.col("offset").between(first, last))
        reason = _why(decode(part))
        if reason is None:
            continue
        if first == last:
            found.append(Poison(partition, first, reason))
            if len(found) > _MOST:
                raise TooMuchPoisonError(f"more than {_MOST} records")
            continue
        middle = (first + last) // 2
        pending += [(partition, first, middle), (partition, middle + 1, last)]
    return found


def is_among(poison: Sequence[Poison]) -> Column:
    """Whether a row's place is one of theirs."""
    places = [(one.partition == sf.col("partition")) & (one.offset == sf.col("offset")) for one in poison]
    condition = sf.lit(False)
    for place in places:
        condition = condition | place
    return condition


def why(poison: Sequence[Poison]) -> Column:
    """The reason of the record at a row's place."""
    reason = sf.lit(None).cast("string")
    for one in poison:
        place = (sf.col("partition") == one.partition) & (sf.col("offset") == one.offset)
        reason = sf.when(place, sf.lit(one.reason)).otherwise(reason)
    return reason


def _why(rows: DataFrame) -> str | None:
    try:
        rows.write.format("noop").mode("overwrite").save()
    except Exception as error:
        trouble = trouble_of_topic(error)
        if trouble is None:
            raise
        return f"value: {trouble.reason}"
    return None
