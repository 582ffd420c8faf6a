"""A sink's records with headers whose names are not UTF-8, on a real broker: given to the task, as Kafka Connect does."""

import pytest
from odd_headers import Name, write_record

from tidings_connect.data.subscription import Consumed, Subscribe
from tidings_connect.kafka.group_consumer import GroupConsumer
from tidings_stack.waiting import wait_for

ODD = [(Name(b"plain"), b"1"), (Name(b"\xff\xfe"), b"odd"), (Name(b"\xfe"), None), (Name(b"none"), None)]
READ = [("plain", b"1"), ("\ufffd", b"odd"), ("\ufffd", None), ("none", None)]


class AllOfThem:
    """Hears of partitions, and does nothing."""

    def assigned(self, partitions: object) -> dict[object, int]:
        return {}

    def revoked(self, partitions: object) -> None: ...

    def lost(self, partitions: object) -> None: ...


@pytest.mark.stack
def test_no_record_is_lost_and_none_is_blamed_for_another(kafka_bootstrap: str, unique_name: str) -> None:
    for number in range(30):  # CPython specialises a call after a few
        headers = ODD if number >= 20 else [("n", b"%d" % number)]
        write_record(kafka_bootstrap, unique_name, b"k", b"%d" % number, headers)
    wanted = Subscribe(unique_name, "c", [unique_name])
    consumer = GroupConsumer({"bootstrap.servers": kafka_bootstrap}, wanted, AllOfThem())  # type: ignore[arg-type]
    found: list[Consumed] = []

    def all_there() -> bool:
        found.extend(consumer.poll(0.5))
        return len(found) >= 30

    try:
        wait_for("all records", all_there, 60)
    finally:
        consumer.close()
    assert [record.value for record in found] == [b"%d" % number for number in range(30)]
    assert [list(record.headers) for record in found[:20]] == [[("n", b"%d" % n)] for n in range(20)]
    assert [list(record.headers) for record in found[20:]] == [READ] * 10
