"""What a promotion or a discard would leave behind is a reason to refuse; on a real Kafka, without processes."""

import pytest
from bikes.topics import TechnicalTopics

from tidings_domain import Domain
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import GenerationError
from tidings_translator.base.naming import ledger_topic, prefix
from tidings_translator.base.records import Partition
from tidings_translator.dead_letters.letter_box import LetterBox
from tidings_translator.dead_letters.letters import Origin, dead_letter, resolution
from tidings_translator.generations.generations import Generations
from tidings_translator.kafka.topics import TopicPlan, Topics
from tidings_translator.ledger.ledger import Fact, Promotion
from tidings_translator.ledger.records import LedgerWriter

pytestmark = pytest.mark.stack


class Boxes:
    """The letters of a source's generations."""

    def __init__(self, bootstrap: str, source: str) -> None:
        self.bootstrap = bootstrap
        self.source = source

    def write(self, generation: str, offset: int, *, of: str = "", policy: str = "skip") -> None:
        """A letter about a change set (or a record of the topic `of`)."""
        own = prefix(self.source, generation)
        record = dead_letter(
            f"{own}.dead-letters",
            stage="decode" if of else "rule",
            error="ValueError",
            reason="a reason",
            partition=Partition(of or f"{own}.change-sets", 0),
            offset=offset,
            key=b"Order/1",
            value=b"",
            policy=policy,
            rule=None if of else "placed",
            aggregate="Order",
            id=f"{offset}",
        ).output
        LetterBox(KafkaAccess(self.bootstrap), record.topic).send([record])

    def close(self, generation: str, offset: int, *, of: str = "") -> None:
        own = prefix(self.source, generation)
        origin = Origin(of or f"{own}.change-sets", 0, offset, None if of else "placed")
        LetterBox(KafkaAccess(self.bootstrap), "").send(
            [resolution(f"{own}.dead-letters", b"Order/1", origin, "discarded")]
        )


@pytest.fixture
def boxes(kafka_bootstrap: str, unique_name: str) -> Boxes:
    TechnicalTopics(kafka_bootstrap, unique_name, partitions=1)
    boxes = Boxes(kafka_bootstrap, unique_name)
    topics = [f"{prefix(unique_name, one)}.dead-letters" for one in ("original", "next")]
    Topics(KafkaAccess(kafka_bootstrap)).create([TopicPlan(topic, 1) for topic in topics], replication=1)
    return boxes


@pytest.mark.timeout(180)
def test_letters_that_would_be_left_behind_are_a_reason_to_refuse(
    kafka_bootstrap: str, unique_name: str, boxes: Boxes
) -> None:
    generations = Generations(KafkaAccess(kafka_bootstrap), unique_name)
    generations.start("next", Domain("bikes", "bikes", {}, (), {}, {}, {}), partitions=1)
    rows = f"{unique_name}.public.orders"

    def refused(match: str, *, despite_letters: bool = False) -> None:
        with pytest.raises(GenerationError, match=match):
            generations.promote("next", max_behind=0, despite_letters=despite_letters)

    # What only the old one has left out is no reason: it can be replayed there also after the promotion.
    boxes.write("original", 4)
    boxes.write("original", 9, of=rows)
    boxes.write("next", 9, of=rows)
    refused("no sequencer of generation 'original'")

    boxes.write("original", 5, policy="hold")
    refused("'original' holds Order/5:")
    refused("no sequencer", despite_letters=True)
    boxes.close("original", 5)
    boxes.write("next", 6, policy="hold")
    refused("'next' holds Order/6:")
    boxes.close("next", 6)
    boxes.write("next", 7)
    refused("'next' could not translate everything: 1 dead letters")
    boxes.close("next", 7)
    boxes.write("next", 10, of=rows)
    refused(f"'next' could not use 1 records which 'original' could, the first at {rows}/0 offset 10")
    boxes.close("next", 10, of=rows)
    refused("no sequencer of generation 'original'")

    # As if it had been promoted: what the old one has left out only the old one can publish.
    with LedgerWriter(KafkaAccess(kafka_bootstrap), unique_name) as turn:
        turn.write("promotion", Promotion("original", "next"))
        turn.write("stopped/original", Fact(1))
        turn.write("switched/next", Fact(1))
    assert generations.ledger().status("original") == "retired"
    with pytest.raises(GenerationError, match="'original' still has 1 dead letters open"):
        generations.discard("original")
    boxes.write("original", 5, policy="hold")
    with pytest.raises(GenerationError, match="'original' still has Order/5 held"):
        generations.discard("original")
    assert generations.discard("original", despite_letters=True) == []
    assert generations.ledger().status("original") == "discarded"
    assert ledger_topic(unique_name) in Topics(KafkaAccess(kafka_bootstrap)).partitions()
