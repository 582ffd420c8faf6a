"""The topics that commands read: a record whose header's name is not UTF-8 stops none of them, and keeps its other headers."""

import pytest
from odd_headers import Name, write_record

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.records import Partition
from tidings_translator.dead_letters.letter_box import LetterBox
from tidings_translator.kafka.reading import RecordReader, read_partition
from tidings_translator.ledger.records import read_topic

pytestmark = pytest.mark.stack
COUNT = 20
"""CPython specialises a call after a few."""
ODD = [(Name(b"\xff\xfe"), b"odd"), (Name(b"tidings_reason"), b"why"), (Name(b"\xfe"), None)]
READ = [("\ufffd", b"odd"), ("tidings_reason", b"why"), ("\ufffd", None)]


@pytest.fixture
def topic(kafka_bootstrap: str, unique_name: str) -> str:
    for _ in range(COUNT):
        write_record(kafka_bootstrap, unique_name, b"k", b"v", ODD)
    return unique_name


def test_every_way_to_read_gives_the_headers(kafka_bootstrap: str, topic: str) -> None:
    kafka, place = KafkaAccess(kafka_bootstrap), Partition(topic, 0)
    whole = [list(headers) for _, _, headers in read_topic(kafka, topic, 1)]
    assert whole == [READ] * COUNT
    part = [list(headers) for _, _, headers in read_partition(kafka, place, COUNT)]
    assert part == [READ] * COUNT
    reader = RecordReader(kafka)
    try:
        found = reader.read((place, offset) for offset in range(COUNT))
    finally:
        reader.close()
    assert [list(one.headers) for one in found.values()] == [READ] * COUNT


def test_letters_are_listed(kafka_bootstrap: str, topic: str) -> None:
    letters = list(LetterBox(KafkaAccess(kafka_bootstrap), topic).letters())
    assert [letter.number for letter in letters] == list(range(COUNT))
    assert {letter.headers["reason"] for letter in letters} == {"why"}
