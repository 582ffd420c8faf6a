"""What data and requests could make without end, or write where they must not: topics, series, loggers, connectors."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tidings_connect.kafka.topic_bounds import TopicBounds, TopicError
from tidings_connect.log_levels import MOST_CHARACTERS, MOST_LOGGERS, LogLevels
from tidings_connect.rest.errors import connect_errors
from tidings_connect.rest.loggers import LoggersApi
from tidings_connect.series_bounds import OTHER, SeriesBounds
from tidings_service import serve_application
from tidings_stack.capture import CaptureWorker as Worker

BOUNDS = TopicBounds(["c", "o", "s"], "shop", "__beat.shop")


@pytest.mark.parametrize(
    "topic",
    [
        "c",
        "o",
        "s",
        "__consumer_offsets",
        "__transaction_state",
        "__mine",
        "tidings.shop.change-sets",
        "tidings.a.b.state",
        "tidings.shop.sequencer-state",
        "tidings.shop.generations",
        "tidings.shop.dead-letters",
        "tidings.shop.generation.next.events.shop.order-placed.v1",
        "tidings.x\n.state",
    ],
)
def test_internal_topics_are_refused(topic: str) -> None:
    with pytest.raises(TopicError, match="may not go to topic"):
        BOUNDS.check(topic)


def test_other_topics_are_not() -> None:
    for topic in (
        "shop.public.orders",
        "tidings.shop.public.orders",
        "__debezium-heartbeat.shop",
        "__beat.shop",
    ):
        BOUNDS.check(topic)
    TopicBounds([], "tidings", "").check("tidings.public.state")
    with pytest.raises(TopicError, match="Kafka"):
        TopicBounds([], "shop", "__consumer_offsets").check("__consumer_offsets")


def test_series_too_many_are_counted_together_and_those_shown_stay() -> None:
    bounds = SeriesBounds(2)
    assert bounds.fold("c", "topic", {"b": 1, "a": 2}) == {"b": 1, "a": 2}
    assert bounds.folded("c") == 0
    assert bounds.fold("c", "topic", {"0": 5, "1": 6, "a": 3, "b": 1}) == {"a": 3, "b": 1, OTHER: 11}
    assert bounds.fold("d", "topic", {"0": 5}) == {"0": 5}
    assert (bounds.folded("c"), bounds.folded("d")) == (2, 0)
    bounds.keep({"d"})
    assert bounds.fold("c", "topic", {"0": 5}) == {"0": 5}


def test_levels_of_loggers_that_nobody_uses_are_set_of_some_only() -> None:
    levels = LogLevels()
    assert not levels.may_set("x" * (MOST_CHARACTERS + 1))
    levels.changed.update({f"made.up.{number}": "INFO" for number in range(MOST_LOGGERS)})
    assert not levels.may_set("made.up")
    assert levels.may_set("made.up.7")
    logging.getLogger("used.by.somebody")
    assert levels.may_set("used.by.somebody")
    assert levels.may_set("ROOT")


async def test_rest_sets_no_logger_too_many() -> None:
    async def nobody(*_: str) -> None: ...

    levels = LogLevels()
    levels.changed.update({f"made.up.{number}": "INFO" for number in range(MOST_LOGGERS)})
    app = web.Application(middlewares=[connect_errors])
    app.router.add_put("/admin/loggers/{logger}", LoggersApi(levels, nobody).put)
    server = await serve_application(app, "127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session:
            for name, status in (("made.up.by.somebody", 400), ("made.up.7", 200)):
                url = f"{server.url}/admin/loggers/{name}"
                async with session.put(url, json={"level": "DEBUG"}) as answer:
                    assert answer.status == status, await answer.text()
    finally:
        await server.close()


def test_a_worker_refuses_what_has_no_end(
    worker_properties: Callable[..., Path],
    start_worker: Callable[..., Worker],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    read_topic: Callable[[str], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    """One connector, one topic of the transforms' own, a megabyte of spool; then no more, nor the worker's own topics."""
    properties = worker_properties(
        "bounds", tidings_connectors_max="1", tidings_task_topics_max="1", tidings_spool_max_bytes="1MB"
    )
    worker = start_worker(properties)
    try:
        sql("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
        name = connector_config["topic.prefix"]

        def config(replacement: str) -> dict[str, str]:
            return connector_config | {
                "transforms": "first,away",
                "transforms.first.type": "org.apache.kafka.connect.transforms.InsertField$Value",
                "transforms.first.static.field": "f",
                "transforms.first.static.value": "v",
                "transforms.away.type": "org.apache.kafka.connect.transforms.RegexRouter",
                "transforms.away.regex": r".*\.public\.(.*)",
                "transforms.away.replacement": replacement,
                "errors.max.retries": "0",
            }

        assert worker.request("PUT", f"/connectors/{name}/config", config(f"{name}-$1"))[0] == 201
        worker.wait_task(name, "RUNNING")
        status, body = worker.request("PUT", "/connectors/another/config", connector_config)
        assert (status, "tidings.connectors.max" in body["message"]) == (403, True)
        sql("INSERT INTO a VALUES (1)")
        wait_until("the first topic", lambda: [r.value["f"] for r in read_topic(f"{name}-a")] == ["v"])
        sql("INSERT INTO b VALUES (1)")
        trace = worker.wait_task(name, "FAILED")["trace"]
        assert f"transforms.away sends a record of topic {name}.public.b to topic {name}-b" in trace
        assert "tidings.task.topics.max" in trace
        assert worker.request("PUT", f"/connectors/{name}/config", config("bounds-config"))[0] == 200
        refused = "to another: records may not go to topic bounds-config, which is one of the worker's own"
        wait_until("the refusal", lambda: refused in worker.task(name).get("trace", ""))

        (database,) = sql("SELECT current_database()")[0]
        sql("TRUNCATE a, b", f"ALTER DATABASE {database} SET logical_decoding_work_mem = '64kB'")
        spools = {"tidings.streaming.mode": "on", "tidings.streaming.memory.bytes": "100000"}
        assert worker.request("PUT", f"/connectors/{name}/config", connector_config | spools)[0] == 200
        worker.wait_task(name, "RUNNING")
        sql("INSERT INTO b VALUES (1)")
        wait_until(
            "series of one topic and of all others",
            lambda: 'topic="other"' in worker.request("GET", "/metrics")[1],
        )
        sql("INSERT INTO a SELECT generate_series(1, 100000)")
        assert "tidings.spool.max.bytes allows" in worker.wait_task(name, "FAILED")["trace"]
    finally:
        worker.end()
