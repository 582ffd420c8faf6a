"""The core on the versions of PostgreSQL that the other cases do not run on, side by side, with big transactions streamed."""

import secrets
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from side_by_side import Pair, Side

from tidings_stack.postgres import create_database, drop_database

SETUP = "CREATE TABLE big (id int PRIMARY KEY, filler text DEFAULT 'x'); CREATE TABLE small (id int PRIMARY KEY, n numeric)"
STEPS = [
    ["INSERT INTO small VALUES (1, 1.5), (2, NULL)", "UPDATE small SET id = 3 WHERE id = 1", "DELETE FROM small WHERE id = 2"],
    [
        "BEGIN",
        "INSERT INTO big SELECT generate_series(1, 1500)",
        "SAVEPOINT a",
        "INSERT INTO big SELECT generate_series(5001, 6500)",
        "ROLLBACK TO a",
        "INSERT INTO small VALUES (10, 10)",
        "SELECT pg_logical_emit_message(true, 'p', 'within')",
        "UPDATE big SET filler = 'y' WHERE id % 5 = 0",
        "COMMIT",
    ],
    ["BEGIN", "INSERT INTO small VALUES (11, 11)", "PREPARE TRANSACTION 'x'", "INSERT INTO small VALUES (12, 12)", "COMMIT PREPARED 'x'"],
    ["TRUNCATE small"],
]  # fmt: skip


@pytest.mark.parametrize(
    "version",
    ["14", *(pytest.param(between, marks=pytest.mark.long) for between in ("15", "17")), "18"],
)
def test_every_version(
    version: str, pg_server: Callable[..., Any], connect_url: str, worker_url: str, kafka_bootstrap: str
) -> None:
    server = pg_server(version, logical_decoding_work_mem="64kB", max_prepared_transactions="5")
    name, token = f"test_{secrets.token_hex(4)}", secrets.token_hex(4)
    url = create_database(server.url, name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SETUP)
    both = Pair(
        url,
        Side(connect_url, f"d{token}", kafka_bootstrap),
        Side(worker_url, f"t{token}", kafka_bootstrap),
        {
            "tidings.streaming.mode": "on",
            "tidings.two.phase": str(version != "14").lower(),
            "skipped.operations": "none",
        },
    )
    try:
        both.start()
        # PostgreSQL 14 sends empty transactions: one for both, so that both know a last commit
        both.connection.execute("CREATE TABLE ignored ()")
        both.run(*STEPS)
        both.compare()
        streamed = "SELECT stream_txns > 0 FROM pg_stat_replication_slots WHERE slot_name = %s"
        assert both.connection.execute(streamed, [both.mine.base]).fetchone() == (True,)
    finally:
        both.close()
        drop_database(server.url, name)
        server.close()
