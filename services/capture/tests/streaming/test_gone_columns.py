"""Columns that are gone from the catalog before the stream comes to their rows: only the stream knows them."""

from collections.abc import Callable
from typing import Any

import pytest

from tidings_stack.capture import CaptureWorker as Worker


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
@pytest.mark.parametrize("change", ["ALTER TABLE a DROP n", "ALTER TABLE a RENAME n TO m", "DROP TABLE a"])
def test_a_null_stays_null(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    read_topic: Callable[[str], list[Any]],
    identity: str,
    change: str,
) -> None:
    """With REPLICA IDENTITY FULL the stream says of every column what it otherwise says of the key's."""
    sql("CREATE TABLE a (id int PRIMARY KEY, n int)", f"ALTER TABLE a REPLICA IDENTITY {identity}")
    name = create(connector_config | {"snapshot.mode": "no_data", "provide.transaction.metadata": "false"})
    worker.request("PUT", f"/connectors/{name}/pause")
    worker.wait_task(name, "PAUSED")
    sql("INSERT INTO a VALUES (1, NULL), (2, 7)", change)
    worker.request("PUT", f"/connectors/{name}/resume")
    topic = f"{name}.public.a"
    wait_until("the rows", lambda: len(read_topic(topic)) == 2)
    assert [record.value["after"] for record in read_topic(topic)] == [
        {"id": 1, "n": None},
        {"id": 2, "n": 7},
    ]
