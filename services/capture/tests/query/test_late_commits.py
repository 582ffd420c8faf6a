"""What `tidings.late.commits=wait` knows of a PostgreSQL's transactions: prepared ones, those of others, and who may not see them."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from query_parts import BOTH, TABLE, await_ids, ids, quick_wait

from tidings_connect.testing.memory_worker import MemoryWorker

OPTIONS = {**BOTH, "mode": "timestamp", "tidings.late.commits": "wait"}


@pytest.fixture(scope="module")
def server(pg_server: Callable[..., Any]) -> Iterator[Any]:
    """A PostgreSQL with transactions that can be prepared."""
    made = pg_server("16", max_prepared_transactions="5")
    yield made
    made.close()


@pytest.fixture
def admin(server: Any, unique_name: str) -> Iterator[Callable[..., Any]]:
    """Runs statements in a schema of the test's own."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {unique_name}".encode())
        connection.execute(f"SET search_path = {unique_name}".encode())

        def run(*statements: str) -> None:
            for statement in statements:
                connection.execute(statement.encode())

        yield run


def options(url: str, schema: str, **more: str) -> dict[str, str]:
    given = conninfo_to_dict(url)
    return {
        "connection.url": f"jdbc:postgresql://{given['host']}:{given['port']}/{given['dbname']}",
        "connection.user": str(given["user"]),
        "connection.password": str(given.get("password") or "unused"),
        "topic.prefix": "q-",
        "poll.interval.ms": "20",
        **OPTIONS,
        "table.whitelist": f"{schema}.ev",
        **more,
    }


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing", "incrementing"])
def test_a_prepared_transaction_is_waited_for(
    worker: MemoryWorker, server: Any, admin: Callable[..., None], unique_name: str, mode: str
) -> None:
    """Its session is gone, so that nobody can be asked when it began; its rows may be older than those of others with lower numbers."""
    admin(TABLE, "INSERT INTO ev (note) VALUES ('first')")
    worker.put(options(server.url, unique_name, mode=mode))
    await_ids(worker, [1])
    with (
        psycopg.connect(server.url, autocommit=True) as first,
        psycopg.connect(server.url, autocommit=True) as late,
    ):
        for connection in (first, late):
            connection.execute(f"SET search_path = {unique_name}".encode())
        late.execute("BEGIN")  # its timestamps are of now
        late.execute("SELECT now()")
        first.execute("BEGIN")
        first.execute("SELECT pg_current_xact_id()")  # and its number is the greater one
        late.execute("INSERT INTO ev (note) VALUES ('late')")
        first.execute(
            "UPDATE ev SET note = 'read at once, by a statement', updated = clock_timestamp() + interval '1 ms' WHERE id = 1"
        )
        first.execute("COMMIT")
        late.execute(f"PREPARE TRANSACTION '{unique_name}'")
    with pytest.raises(AssertionError):
        quick_wait(worker, lambda: len(ids(worker)) > 1)
    admin(f"COMMIT PREPARED '{unique_name}'")
    worker.wait_for(lambda: 2 in ids(worker), "the row that was prepared")


def test_a_user_who_does_not_see_others_is_told_so(
    worker: MemoryWorker, server: Any, admin: Callable[..., None], unique_name: str
) -> None:
    user = f"u{unique_name}"
    admin(
        TABLE,
        f"CREATE ROLE {user} LOGIN PASSWORD 'p'",
        f"GRANT USAGE ON SCHEMA {unique_name} TO {user}",
        f"GRANT SELECT ON ev TO {user}",
    )
    own = {"connection.user": user, "connection.password": "p"}
    worker.put(options(server.url, unique_name, **own))
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    assert "does not see the transactions of others" in str(worker.error)
    assert "pg_read_all_stats" in str(getattr(worker.error, "hint", ""))
    worker.stop()
    admin(f"GRANT pg_read_all_stats TO {user}", "INSERT INTO ev (note) VALUES ('x')")
    worker.resume()
    await_ids(worker, [1])


def test_a_replica_is_refused_where_timestamps_count(
    worker: MemoryWorker, server: Any, admin: Callable[..., None], unique_name: str, stack: Any
) -> None:
    """It does not see what runs on its primary; but it knows which numbers of transactions are not ended."""
    admin(TABLE, "INSERT INTO ev (note) VALUES ('x')")
    replica = stack.add_replica(server, {"max_prepared_transactions": "5"})
    worker.put(options(replica.url, unique_name))
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    assert "is a replica, which does not see the transactions that run on its primary" in str(worker.error)
    worker.put(options(replica.url, unique_name, mode="incrementing"))
    await_ids(worker, [1])
    worker.stop()
    replica.close()
