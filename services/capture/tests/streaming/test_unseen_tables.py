"""Tables that a transaction changes which others do not see yet: a commit is in the WAL, and streamed, before that."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

CHANGE = "ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (id, t); INSERT INTO a VALUES (20, 'new')"


@pytest.mark.parametrize("standby", ["nobody", "*"])
def test_a_table_is_read_as_the_transaction_has_left_it(
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    commits_wait: Callable[..., AbstractContextManager[None]],
    wait_until: Callable[..., Any],
    read_topic: Callable[[str], list[Any]],
    standby: str,
) -> None:
    """For a standby that is away it waits for as long as it takes. A standby that is this very task has the commit when the row has been
    sent: its key is then the former one.
    """
    sql("CREATE TABLE a (id int PRIMARY KEY, t text)", "CREATE TABLE b (id int PRIMARY KEY)")
    name = create(connector_config | {"snapshot.mode": "no_data", "provide.transaction.metadata": "false"})
    topic = f"{name}.public.a"
    sql("INSERT INTO a VALUES (1, 'x')")
    wait_until("the stream", lambda: read_topic(topic))
    with commits_wait("INSERT INTO b VALUES (1)"):
        wait_until("a table that is only written to", lambda: read_topic(f"{name}.public.b"))
    with commits_wait(CHANGE, standby):
        if standby == "nobody":
            time.sleep(4)  # whoever does not wait reads the catalog within a second
            assert len(read_topic(topic)) == 1
        else:
            wait_until("the row", lambda: len(read_topic(topic)) > 1, 30)
    wait_until("the row", lambda: len(read_topic(topic)) > 1)
    key = read_topic(topic)[1].key
    assert key == ({"id": 20, "t": "new"} if standby == "nobody" else {"id": 20})
