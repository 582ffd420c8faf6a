"""A day on which nothing captured happens, and then a change.

What a day does to the parts is made to happen in seconds: the broker forgets the producer (``producer.id.expiration.ms``, a
day) and closes connections that say nothing (``connections.max.idle.ms``, ten minutes), the server ends the catalog
session (as ``idle_session_timeout`` does), a firewall forgets connections, and another database writes WAL all the while.
"""

import io
import secrets
import socket
import struct
import time

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from faultlab.history import confirmed_lsn, create_tables
from faultlab.run import connector_config
from faultlab.servers import Lab
from faultlab.verdict import Ends, read_topics

from tidings_stack.postgres import create_database, drop_database
from tidings_stack.waiting import wait_for

SEGMENTS = 12
SEGMENT_BYTES = 16 * 1024 * 1024


@pytest.mark.stack
@pytest.mark.timeout(600)
def test_a_days_idle(lab: Lab) -> None:
    name, worker, ends = f"idle{secrets.token_hex(3)}", lab.worker, Ends(lab.kafka.bootstrap)
    logged = worker.log.stat().st_size
    url = create_database(lab.pg.url, name)
    try:
        create_tables(url, f"{name}_history", 0)
        with psycopg.connect(lab.pg.url, autocommit=True) as other:
            config = connector_config(lab, name) | {"tidings.receive.timeout.ms": "8000"}
            worker.ask("PUT", f"/connectors/{name}/config", config, 200, 201)
            worker.wait_task(name)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("INSERT INTO a VALUES (1, 1)")
            wait_for("the producer to be known", lambda: ends.of(name) and producers(lab, f"{name}.public.a"))
            pid, stored, began = worker.task_pid(), offsets(lab), time.monotonic()

            ended = other.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
                " WHERE datname = %s AND backend_type = 'client backend'",
                (name,),
            ).fetchall()
            assert ended
            assert all(row[0] for row in ended)
            for _ in range(
                SEGMENTS
            ):  # WAL of others, none of it captured, and nothing that asks for a heartbeat
                other.execute("SELECT pg_logical_emit_message(false, 'other', 'x'), pg_switch_wal()")
            (written,) = other.execute("SELECT (pg_current_wal_lsn() - '0/0')::int8").fetchone() or (0,)
            wait_for("the idle slot to follow", lambda: confirmed_lsn(url, name) >= written - SEGMENT_BYTES)
            wait_for("the broker to forget the producer", lambda: producers(lab, f"{name}.public.a") == 0)
            idle = time.monotonic() - began
            assert offsets(lab) - stored < 10 + idle / 2, "an idle connector writes hardly anything"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("INSERT INTO a VALUES (2, 2)")
            # Its relation has to be looked up, in a new session.
            connection.execute("INSERT INTO b VALUES (2, 3)")
        wait_for(
            "both rows",
            lambda: (
                ends.of(name).get((f"{name}.public.a", 0)) == 2 and ends.of(name).get((f"{name}.public.b", 0))
            ),
        )
        assert worker.task_pid() == pid, "nothing of this is a reason to start anew"
        records = read_topics(lab.kafka.bootstrap, name)
        assert [r.key["id"] for r in records[f"{name}.public.a", 0]] == [1, 2]
        assert [r.key["id"] for r in records[f"{name}.public.b", 0]] == [2]
        # And a firewall that has forgotten every connection, the catalog session's too: new changes are late, not lost.
        assert lab.pg_proxy.lose() > 0
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("INSERT INTO b VALUES (3, 4)")
        wait_for("the row after it", lambda: ends.of(name).get((f"{name}.public.b", 0), 0) >= 2)
        assert [r.key["id"] for r in read_topics(lab.kafka.bootstrap, name)[f"{name}.public.b", 0]][-1] == 3
        assert b"tidings.receive.timeout.ms" in worker.log.read_bytes()[logged:]
    finally:
        ends.close()
        lab.heal()
        worker.ask("DELETE", f"/connectors/{name}", None, 204, 404)
        drop_database(lab.pg.url, name)


def offsets(lab: Lab) -> int:
    """How many records the offsets topic has got."""
    consumer = Consumer({"bootstrap.servers": lab.kafka.bootstrap, "group.id": "idle"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(lab.worker.offset_topic, 0), timeout=60)[1])
    finally:
        consumer.close()


def producers(lab: Lab, topic: str) -> int:
    """How many producers the broker remembers for a topic's partition 0: the request DescribeProducers, version 0, as in
    Kafka's protocol guide; no client in Python has it."""
    name = topic.encode()
    request = (
        struct.pack(">hhihc", 61, 0, 1, -1, b"\0")
        + bytes((2, len(name) + 1))
        + name
        + bytes((2,))
        + struct.pack(">icc", 0, b"\0", b"\0")
    )
    with socket.create_connection(("127.0.0.1", lab.kafka.port), timeout=60) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answers:
            (size,) = struct.unpack(">i", answers.read(4))
            answer = io.BytesIO(answers.read(size))
    answer.read(4 + 1 + 4 + 1)  # correlation id, tags, throttle time, number of topics
    answer.read(answer.read(1)[0] - 1 + 1)  # the topic's name, number of partitions
    number, error = struct.unpack(">ih", answer.read(6))
    if error in (3, 5, 6):  # no such partition, no leader, not the leader: it is just being created
        return 0
    assert (number, error) == (0, 0)
    answer.read(max(answer.read(1)[0] - 1, 0))  # no message
    return answer.read(1)[0] - 1
