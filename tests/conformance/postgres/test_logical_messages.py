"""Logical messages, side by side: op ``m`` on ``<prefix>.message``, in transactions and without."""

from collections.abc import Callable

import pytest
from side_by_side import Pair

from tidings_connect.data.records import Record
from tidings_stack.connect import avro_converter_settings

SETUP = "CREATE TABLE notes (id int PRIMARY KEY)"
STEPS = [
    # a row first: a message without a transaction repeats the time of the last commit
    "INSERT INTO notes VALUES (1)",
    "SELECT pg_logical_emit_message(false, 'alone', 'text é')",
    "INSERT INTO notes VALUES (2)",
    [
        "BEGIN",
        "SELECT pg_logical_emit_message(true, 'within', 'first')",
        "INSERT INTO notes VALUES (3)",
        "SELECT pg_logical_emit_message(true, 'within', '\\x00ff'::bytea)",
        "SELECT pg_logical_emit_message(true, 'dropped.a', 'x')",
        "COMMIT",
    ],
    [
        "SELECT pg_logical_emit_message(false, 'DROPPED.b', 'x')",
        "SELECT pg_logical_emit_message(true, 'empty', '')",
        "SELECT pg_logical_emit_message(false, '', 'no prefix')",
        "SELECT pg_logical_emit_message(false, 'alone', 'twice')",
        "INSERT INTO notes VALUES (4)",
    ],
    [
        "BEGIN",
        "SELECT pg_logical_emit_message(true, 'undone', 'x')",
        "ROLLBACK",
    ],
]
EXCLUDE = {"message.prefix.exclude.list": "dropped\\..*"}


@pytest.mark.parametrize("mode", ["bytes", "base64-url-safe"])
def test_messages_in_json(compare: Callable[..., dict[tuple[str, int], list[Record]]], mode: str) -> None:
    """With the exclude list in any case, and two ways to show binary content."""
    compare({**EXCLUDE, "binary.handling.mode": mode}, SETUP, STEPS)


def test_messages_in_avro(
    compare: Callable[..., dict[tuple[str, int], list[Record]]], registry_url: str
) -> None:
    compare({**avro_converter_settings(registry_url), **EXCLUDE}, SETUP, STEPS)


def test_messages_are_events_of_their_transaction(pair: Callable[..., Pair]) -> None:
    """END markers name a message's collection by a Java object's address in Debezium: the one difference."""
    both = pair(
        {"provide.transaction.metadata": "true", "message.prefix.include.list": "within,alone"}, SETUP
    )
    both.run(*STEPS)
    mine, theirs = both.records(both.mine), both.records(both.theirs)
    topic = (f"{both.mine.base}.message", 0)
    assert mine[topic] == theirs[topic]
    assert len(mine[topic]) == 4
