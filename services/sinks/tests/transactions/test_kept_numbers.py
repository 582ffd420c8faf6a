"""MariaDB's servers among the positions that a target keeps."""

import random
from collections.abc import Collection, Mapping

from tidings_connect.data.subscription import TopicPartition
from tidings_envelope.gtid import Gtid
from tidings_envelope.server_numbers import ServerNumbers
from tidings_sinks.transactions.kept_numbers import SINCE, KeptNumbers

TOPIC = "shop.transaction"


class Target:
    """Whole numbers by partition, which have to be claimed before they are written."""

    def __init__(self) -> None:
        self.numbers: dict[TopicPartition, int] = {}
        self.claimed: set[TopicPartition] = set()

    def claim(self, wanted: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.claimed |= set(wanted)
        return {at: self.numbers[at] for at in wanted if at in self.numbers}

    def write(self, kept: KeptNumbers, numbers: ServerNumbers) -> None:
        found = kept.kept(numbers, self.claim)
        assert set(found) <= self.claimed
        self.numbers |= found


def test_what_is_written_is_read_whatever_servers_come_and_whenever_it_is_read() -> None:
    r = random.Random(7)
    target, numbers = Target(), ServerNumbers()
    kept = KeptNumbers(TOPIC)
    assert kept.read(target.claim) == numbers
    for sequence in range(1, 100):
        numbers.note(Gtid(0, r.choice([1, 2, 4_294_967_295, r.randrange(1, 30)]), sequence))
        target.write(kept, numbers)
        if r.random() < 0.3:
            target.claimed.clear()
            kept = KeptNumbers(TOPIC)
            assert kept.read(target.claim) == numbers
            assert kept.partitions() == target.claimed


def test_nothing_is_known_of_servers_after_offsets_were_altered() -> None:
    target, kept = Target(), KeptNumbers(TOPIC)
    kept.read(target.claim)
    target.write(kept, ServerNumbers({1: 7, 2: 8, 3: 9}, 5))
    del target.numbers[TopicPartition(TOPIC, SINCE)]
    kept = KeptNumbers(TOPIC)
    assert kept.read(target.claim) == ServerNumbers()
    target.write(kept, ServerNumbers({2: 6}, 6))
    assert KeptNumbers(TOPIC).read(target.claim) == ServerNumbers({2: 6}, 6)
    target.write(kept, ServerNumbers({2: 6, 9: 7}, 6))
    assert KeptNumbers(TOPIC).read(target.claim) == ServerNumbers({2: 6, 9: 7}, 6)
