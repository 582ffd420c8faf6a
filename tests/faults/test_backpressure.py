"""A database that is faster than Kafka: it waits, memory does not grow, and everything arrives once."""

import secrets
from pathlib import Path

import psycopg
import pytest
from faultlab.run import connector_config
from faultlab.servers import Lab
from faultlab.verdict import Ends, read_topics

from tidings_stack.postgres import create_database, drop_database
from tidings_stack.waiting import wait_for

ROWS = 40_000
ROW_BYTES = 1_900
SLOW = 400_000
"""Bytes a second on the way to Kafka."""
MOST_BYTES = 64 * 1024 * 1024
"""What a task may grow by: the producer's queue is 16 MB, what is written is 80 MB."""


def memory(pid: int, what: str) -> int:
    """A line of /proc/<pid>/status, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


@pytest.mark.stack
@pytest.mark.timeout(600)
def test_a_slow_kafka_makes_the_database_wait(lab: Lab) -> None:
    name, worker, ends = f"slow{secrets.token_hex(3)}", lab.worker, Ends(lab.kafka.bootstrap)
    topic = (f"{name}.public.big", 0)
    url = create_database(lab.pg.url, name)

    def arrived() -> int:
        return ends.of(name, ("big",)).get(topic, 0)

    def unsent() -> int:
        """WAL that the walsender has not sent yet; -1 while there is none."""
        row = connection.execute(
            "SELECT (pg_current_wal_lsn() - sent_lsn)::int8 FROM pg_stat_replication JOIN pg_replication_slots"
            " ON active_pid = pid WHERE slot_name = %s",
            (name,),
        ).fetchone()
        return -1 if row is None else int(row[0])

    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE big (id int PRIMARY KEY, text text NOT NULL)")
            config = connector_config(lab, name) | {
                "table.include.list": "public.big",
                "tidings.receive.timeout.ms": "60000",  # a server that is slow to answer is not lost
            }
            worker.ask("PUT", f"/connectors/{name}/config", config, 200, 201)
            worker.wait_task(name)
            connection.execute("INSERT INTO big VALUES (0, '')")
            wait_for("the first row", arrived)
            pid = worker.task_pid()
            assert pid is not None
            before = memory(pid, "VmRSS")
            lab.kafka_proxy.throttle(SLOW)
            for first in range(1, ROWS, 1000):  # of a transaction that is being sent, sent_lsn tells nothing
                connection.execute(
                    "INSERT INTO big SELECT i, repeat('x', %s) FROM generate_series(%s::int, %s::int) i",
                    (ROW_BYTES, first, first + 999),
                )
            # Longer than wal_sender_timeout: a task that only waited for Kafka would lose its connection.
            wait_for("some seconds' worth of records", lambda: arrived() > 6 * SLOW / (ROW_BYTES + 500))
            assert unsent() > ROWS * ROW_BYTES / 4
            assert worker.task(name)["state"] == "RUNNING"
            lab.kafka_proxy.heal()
            wait_for("every row", lambda: arrived() > ROWS)
            assert memory(pid, "VmHWM") - before < MOST_BYTES
        assert worker.task_pid() == pid, "nothing of this is a reason to start anew"
        records = read_topics(lab.kafka.bootstrap, name)[topic]
        assert [record.key["id"] for record in records] == list(range(ROWS + 1))
    finally:
        lab.heal()
        ends.close()
        worker.ask("DELETE", f"/connectors/{name}", None, 204, 404)
        drop_database(lab.pg.url, name)
