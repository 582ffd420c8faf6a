"""``errors.tolerance=all``: rows that cannot be converted and records that transforms fail on are left out and kept."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tidings_capture.postgres.settings.options import check_options
from tidings_stack.capture import CaptureWorker as Worker

SECRET = "not a number"


def test_what_cannot_be_made_is_left_out_told_counted_and_kept(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    """Two kinds of failure in one table: NaN has no Decimal, and a text is not a number for a transform."""
    sql("CREATE TABLE t (id int PRIMARY KEY, amount numeric(9,2), note text, hidden text)")
    prefix = connector_config["topic.prefix"]
    dead = f"{prefix}-dead"
    name = create(
        connector_config
        | {
            "snapshot.mode": "no_data",
            "provide.transaction.metadata": "true",
            "decimal.handling.mode": "precise",
            "event.converting.failure.handling.mode": "fail",
            "column.mask.with.3.chars": "public.t.hidden",
            "errors.tolerance": "all",
            "errors.log.enable": "true",
            "errors.deadletterqueue.topic.name": dead,
            "transforms": "unwrap,number",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "transforms.number.type": "org.apache.kafka.connect.transforms.Cast$Value",
            "transforms.number.spec": "note:int32",
        }
    )
    sql(
        "INSERT INTO t VALUES (1, 1, '11', 'h')",
        "INSERT INTO t VALUES (2, 'NaN', '22', 'h'), (3, 3, '33', 'h')",
        f"INSERT INTO t VALUES (4, 4, '{SECRET}', 'h'), (5, 5, '55', 'h')",
    )
    good = wait_records(f"{prefix}.public.t", 3)
    assert [(record.value["id"], record.value["note"]) for record in good] == [(1, 11), (3, 33), (5, 55)]

    row, record = wait_records(dead, 2)
    assert row.value == {
        "schema": "public", "table": "t", "op": "c", "before": None,
        "after": {"id": "2", "amount": "NaN", "note": "22"},
    }  # fmt: skip
    told = {header.removeprefix("__connect.errors."): text.decode() for header, text in row.headers.items()}
    assert told["topic"] == f"{prefix}.public.t"
    assert told["connector.name"] == name
    assert told["stage"] == "VALUE_CONVERTER"
    assert "amount" in told["exception.message"]
    assert "at LSN" in told["exception.message"]
    assert record.key == {"id": 4}
    assert record.value["after"]["note"] == SECRET
    assert record.headers["__connect.errors.stage"] == b"TRANSFORMATION"

    # Counted and logged, without a cell's content.
    def skipped() -> bool:
        text = worker.request("GET", "/metrics")[1]
        return f'records_skipped{{connector="{name}",task="0"}} 2.0' in text

    wait_until("the metrics", skipped)
    lines = [json.loads(line) for line in worker.log.read_text().splitlines() if f'"{name}"' in line]
    left_out = [line for line in lines if "is left out" in line["event"]]
    assert [line["stage"] for line in left_out] == ["VALUE_CONVERTER", "TRANSFORMATION"]
    assert not any(SECRET in json.dumps(line) for line in lines)
    # The rows that are there are numbered as if nothing had been left out before them.
    assert worker.task(name)["state"] == "RUNNING"


def test_transforms_that_drop_transaction_markers_are_told_once(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY)")
    prefix = connector_config["topic.prefix"]
    name = create(
        connector_config
        | {
            "snapshot.mode": "no_data",
            "provide.transaction.metadata": "true",
            "transforms": "drop",
            "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
            "transforms.drop.predicate": "table",
            "transforms.drop.negate": "true",
            "predicates": "table",
            "predicates.table.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
            "predicates.table.pattern": r".*\.public\.t",
        }
    )
    sql("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    wait_records(f"{prefix}.public.t", 2)

    def told() -> list[Any]:
        lines = [json.loads(line) for line in worker.log.read_text().splitlines() if f"{name}.trans" in line]
        return [line["topic"] for line in lines if "leave out transaction markers" in line["event"]]

    wait_until("the log", told)
    assert told() == [f"{prefix}.transaction"]
    assert worker.task(name)["state"] == "RUNNING"


def test_without_tolerance_the_task_fails_and_names_column_and_position(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    sql("CREATE TABLE t (id int PRIMARY KEY, amount numeric(9,2))")
    name = create(
        connector_config | {"snapshot.mode": "no_data", "event.converting.failure.handling.mode": "fail"}
    )
    sql("INSERT INTO t VALUES (1, 'NaN')")
    trace = worker.wait_task(name, "FAILED")["trace"]
    assert trace.startswith("conversion: ")
    assert "amount" in trace.splitlines()[0]
    assert "at LSN" in trace.splitlines()[0]
    assert "no further attempt" in trace


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"errors.deadletterqueue.topic.name": "x"}, "errors.deadletterqueue.topic.name"),
        ({"errors.tolerance": "some"}, "errors.tolerance"),
        ({"errors.log.include.messages": "true"}, "errors.log.include.messages"),
    ],
)
def test_options(options: dict[str, str], name: str) -> None:
    assert name in check_options(options)
