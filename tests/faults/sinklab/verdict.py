"""What a target holds beside what it has to hold: what is missing or other, and, as a verdict of its own, what is there twice."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sinklab.target import TAIL, Claim, RecordPlace, Rows

_SHOWN = 6


@dataclass
class Verdict:
    """What was found wrong."""

    wrong: list[str] = field(default_factory=list)
    """What is missing, other, or there although it must not be."""
    doubled: int = 0
    """How many keys or records are there more than once."""
    written: int = 0
    """How many rows or records have to be there."""

    @property
    def ends(self) -> bool:
        """Whether the target has become what it has to be, but for what is there twice."""
        return not self.wrong


def judge_copy(truth: Mapping[str, Mapping[int, Any]], found: Rows) -> Verdict:
    """A copy beside the source's rows."""
    verdict = Verdict(written=sum(map(len, truth.values())))
    for table, rows in truth.items():
        there = found.get(table, [])
        verdict.doubled += _doubled(key for key, _ in there)
        differs = sorted(set(rows.items()) ^ set(there))
        if differs:
            verdict.wrong.append(f"{table}: {differs[:_SHOWN]}")
    return verdict


def judge_places(
    records: Sequence[RecordPlace], found: Sequence[RecordPlace], claim: Claim, *, in_order: bool = False
) -> Verdict:
    """What was appended beside the records of Kafka, in their order.

    Args:
        in_order: whether `found` stands in the order of writing: then records of a partition come in theirs, but for those that
            are repeated.
    """
    verdict = Verdict(written=len(records), doubled=_doubled(found))
    there = set(found)
    if unknown := there - set(records):
        verdict.wrong.append(f"no such records: {sorted(unknown)[:_SHOWN]}")
    by_partition: dict[tuple[str, int], list[RecordPlace]] = defaultdict(list)
    for record in records:
        by_partition[record.topic, record.partition].append(record)
    if in_order:
        verdict.wrong += _out_of_order(found)
    for mine in by_partition.values():
        missing = [record for record in mine if record not in there]
        tail = claim is Claim.OBJECTS and len(missing) < TAIL and missing == mine[len(mine) - len(missing) :]
        if missing and not tail:
            verdict.wrong.append(f"missing: {missing[:_SHOWN]} of {len(missing)}")
    return verdict


def _out_of_order(found: Sequence[RecordPlace]) -> list[str]:
    last: dict[tuple[str, int], int] = {}
    wrong = []
    for place in dict.fromkeys(found):
        before = last.get((place.topic, place.partition), -1)
        if place.offset < before:
            wrong.append(f"{place} came first after {before}")
        last[place.topic, place.partition] = place.offset
    return wrong[:_SHOWN]


def _doubled(found: Iterable[object]) -> int:
    return sum(count > 1 for count in Counter(found).values())
