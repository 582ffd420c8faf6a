"""What a transaction's END marker counts of rows that do not come out, side by side with Debezium's.

A row that a transform drops, moves to another topic or fails on has been counted, by Debezium and here. What has not
come out is told in a header of ours alone, ``tidings.left.out``, without which nobody who waits for whole transactions
could know.
"""

import json
from collections.abc import Callable
from typing import Any

from side_by_side import Pair

FILTER = "org.apache.kafka.connect.transforms.Filter"
TABLES = "CREATE TABLE kept (id int PRIMARY KEY, v text);" + "".join(
    f"CREATE TABLE {name} (id int PRIMARY KEY, v text);" for name in ("dropped", "failing", "moved")
)


def on(alias: Any, table: Any, **options: Any) -> dict[str, Any]:
    """A transform of one table."""
    return {
        **{f"transforms.{alias}.{name.replace('__', '.')}": value for name, value in options.items()},
        f"transforms.{alias}.predicate": table,
        f"predicates.{table}.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        f"predicates.{table}.pattern": rf".*\.public\.{table}",
    }


def ends(records: Any) -> list[Any]:
    """The END markers: their counts, and what our header says."""
    found = []
    for (topic, _), values in records.items():
        for _, value, headers in values if topic.endswith(".transaction") else ():
            payload = json.loads(value)
            payload = payload.get("payload", payload)
            if payload["status"] == "END":
                counts = {c["data_collection"]: c["event_count"] for c in payload["data_collections"]}
                told = {name: json.loads(text) for name, text in headers}
                found.append((payload["event_count"], counts, told))
    return found


def test_rows_that_transforms_drop_move_or_fail_on_are_counted(pair: Callable[..., Pair]) -> None:
    both = pair(
        {
            "provide.transaction.metadata": "true",
            "errors.tolerance": "all",
            "transforms": "drop,fail,move",
            "predicates": "dropped,failing,moved",
            **on("drop", "dropped", type=FILTER),
            **on("fail", "failing", type="org.apache.kafka.connect.transforms.ValueToKey", fields="absent"),
            **on(
                "move",
                "moved",
                type="org.apache.kafka.connect.transforms.RegexRouter",
                regex="(.*)",
                replacement="$1-moved",
            ),
        },
        TABLES,
    )
    both.run(
        [
            "BEGIN",
            "INSERT INTO kept VALUES (1)",
            "INSERT INTO dropped VALUES (1), (2)",
            "INSERT INTO failing VALUES (1)",
            "INSERT INTO moved VALUES (1)",
            "UPDATE dropped SET id = 3 WHERE id = 1",  # a delete, a tombstone and a create
            "DELETE FROM dropped WHERE id = 2",
            "INSERT INTO kept VALUES (2)",
            "COMMIT",
        ],
    )
    counts = {"public.kept": 2, "public.dropped": 5, "public.failing": 1, "public.moved": 1}
    left_out = {"filtered": {"public.dropped": 5, "public.moved": 1}, "failed": {"public.failing": 1}}
    assert ends(both.records(both.theirs))[0] == (9, counts, {})
    assert ends(both.records(both.mine))[0] == (9, counts, {"tidings.left.out": left_out})
    assert [told for _, _, told in ends(both.records(both.mine))[1:]] == [{}]
    both.compare(but_headers={"tidings.left.out"})


def test_debezium_does_not_count_rows_that_it_cannot_convert_and_we_do(pair: Callable[..., Pair]) -> None:
    both = pair(
        {
            "provide.transaction.metadata": "true",
            "decimal.handling.mode": "precise",
            "event.converting.failure.handling.mode": "fail",
            "errors.tolerance": "all",
        },
        "CREATE TABLE priced (id int PRIMARY KEY, price numeric(9,2))",
        only_theirs={"event.processing.failure.handling.mode": "skip"},
    )
    both.run(["INSERT INTO priced VALUES (1, 1), (2, 'NaN'), (3, 3)"])
    assert ends(both.records(both.theirs))[0] == (2, {"public.priced": 2}, {})
    left_out = {"failed": {"public.priced": 1}}
    assert ends(both.records(both.mine))[0] == (3, {"public.priced": 3}, {"tidings.left.out": left_out})
