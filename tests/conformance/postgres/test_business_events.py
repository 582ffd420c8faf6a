"""Real Debezium's topics and capture's, in every format, give the same business events, and those that SQL tells.

What the two stages do between Kafka and Kafka is done here in memory, so that six sources cost little.
"""

import random
from typing import Any

import pytest
from plans.in_memory import everything
from side_by_side import until
from translatorlab.store import TABLES, Customers, create_store
from translatorlab.truth import count, expected_events

from tidings_domain import load_domain
from tidings_stack.connect import avro_converter_settings

TRANSACTIONS = 150
JSON = "org.apache.kafka.connect.json.JsonConverter"
OPTIONS = {
    "provide.transaction.metadata": "true",
    "table.include.list": rf"public\.({'|'.join(TABLES)}|elsewhere)",
}


def json_options(schemas: str) -> dict[str, str]:
    sides = ("key.converter", "value.converter")
    return dict.fromkeys(sides, JSON) | {f"{side}.schemas.enable": schemas for side in sides}


@pytest.mark.turns
@pytest.mark.timeout(900)
def test_the_same_events_from_either_engine_in_every_format(
    pair: Any, pg_database: str, registry_url: str, unique_name: str
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    slot = f"{unique_name}_order"
    create_store(pg_database, slot)
    formats = {
        "json": {**json_options("false"), "decimal.handling.mode": "string"},
        "json with schemas": json_options("true"),
        "avro": avro_converter_settings(registry_url),
    }
    pairs = {name: pair({**OPTIONS, **form}) for name, form in formats.items()}
    with Customers(pg_database, seed, pause=0.0, big=0.02) as customers:
        until("customers to have been there", lambda: customers.transactions >= TRANSACTIONS)
    for both in pairs.values():
        both.catch_up()
    want = {event: found for event, found in expected_events(pg_database, slot).items() if found}
    assert count(want) > TRANSACTIONS // 2
    domain = load_domain("translatorlab.domain")
    ids = set()
    for form, both in pairs.items():
        for side in (both.theirs, both.mine):
            told = everything(domain, side, registry_url, seed)
            assert told.events == want, (form, side.base)
            assert len(set(told.ids)) == len(told.ids) == count(want)
            ids.add(frozenset(told.ids))
    assert len(ids) == 1, "an event's id depends on what was committed, and on nothing else"
