"""Two sources with one domain: the second is refused before it writes anything, and takes over when the first is no more."""

from collections.abc import Callable
from typing import Any

import pytest
from bikes.history import Change, History, Transaction
from bikes.processes import StageProcess, wait_for
from bikes.running import count, expected, in_order, published
from bikes.topics import TechnicalTopics, records_of
from confluent_kafka.admin import AdminClient

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]


class Source:
    """A database's topics and its stages, whose domain is the one of the test."""

    def __init__(
        self, bootstrap: str, name: str, make_stage: Callable[..., StageProcess], seed: int, domain: str
    ) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.domain = domain
        self.history = History(seed)
        self.topics = TechnicalTopics(bootstrap, name)
        self.sequencer = make_stage("sequencer", log=f"{name}-sequencer", TIDINGS_SOURCE=name)

    def commit(self, number: int) -> Transaction:
        """An order and its lines in one transaction."""
        done = self.history.commit(
            [
                Change("public.customers", "c", None, {"id": number, "name": "Ann"}),
                Change("public.orders", "c", None, {"id": number, "customer_id": number, "status": "placed"}),
                Change("public.order_items", "c", None, {"order_id": number, "line_no": 1, "price": "10.00"}),
            ]
        )
        self.topics.write(records_of(self.name, done))
        return done

    def wait_for_events(self, *transactions: Transaction, alive: StageProcess) -> None:
        want = expected(self.domain, list(transactions))
        wait_for(
            lambda: len(published(self.bootstrap, self.domain)) >= count(want),
            "events",
            seconds=120,
            alive=(self.sequencer, alive),
        )
        assert in_order(published(self.bootstrap, self.domain)) == want

    def refusal(self) -> dict[str, Any]:
        assert self.sequencer.exit_code(60) == 1
        return self.sequencer.said('"error"') or {}


@pytest.mark.turns
def test_a_second_source_with_a_domain_is_refused_until_the_first_is_gone(
    kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess]
) -> None:
    here = Source(kafka_bootstrap, f"{unique_name}-here", make_stage, 1, unique_name)
    publishes = make_stage("translator", log="here-translator", TIDINGS_SOURCE=here.name)
    first = here.commit(1)
    here.wait_for_events(first, alive=publishes)

    there = Source(kafka_bootstrap, f"{unique_name}-there", make_stage, 2, unique_name)
    second = there.commit(2)
    said = there.refusal()
    assert said["event"] == (
        f"source '{here.name}' makes the events of domain '{unique_name}' already; '{there.name}' would write to the"
        " same business topics, where nothing tells the sources apart"
    )
    assert f"delete the topic tidings.{here.name}.generations" in said["hint"]

    # The first one is not refused when it begins again.
    assert here.sequencer.terminate() == 0
    here.sequencer.start()
    third = here.commit(3)
    here.wait_for_events(first, third, alive=publishes)  # and none of the other's

    # The first one is given up: now the second one has the domain, and the first one is refused.
    for stage in (here.sequencer, publishes):
        assert stage.terminate() == 0
    ledger = f"tidings.{here.name}.generations"
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.delete_topics([ledger])[ledger].result()
    wait_for(lambda: ledger not in admin.list_topics(timeout=10).topics, "the ledger to be gone")
    there.sequencer.start()
    there.wait_for_events(
        first,
        third,
        second,
        alive=make_stage("translator", log="there-translator", TIDINGS_SOURCE=there.name),
    )
    here.sequencer.start()
    assert f"source '{there.name}' makes the events" in here.refusal()["event"]
