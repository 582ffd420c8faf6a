"""Kafka Connect's REST API: the same sequence of requests to a real Kafka Connect and to a real worker.

Status, ``Allow`` and ``Location`` and the body of each answer are the same. Masked: names and addresses that must
differ, passwords (Kafka Connect shows them, we never do), texts of definitions, and what Java says of a body that
it cannot read.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from rest_pairs.sides import JSON, WAIT_SECONDS, Api, Both, Request, delete, get, patch, post, put
from rest_pairs.validation import ALSO_WRONG, CHAIN, WRONG, definitions, validated
from side_by_side import CONNECTOR_CLASS, until

PLUGIN = f"/connector-plugins/{CONNECTOR_CLASS}/config"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SCRIPTED = {"io.debezium.transforms.ContentBasedRouter", "io.debezium.transforms.Filter"}


@pytest.fixture
def both(connect_url: str, worker_url: str, unique_name: str, pg_database: str) -> Iterator[Both]:
    sides = Both(Api(connect_url, f"{unique_name}a"), Api(worker_url, f"{unique_name}b"))
    yield sides
    for side in (sides.theirs, sides.mine):
        side.ask(delete("/connectors/{name}"))
    with psycopg.connect(pg_database, autocommit=True) as connection:
        until(
            "the slots to be let go",
            lambda: (
                connection.execute(
                    "SELECT count(*) FROM pg_replication_slots WHERE active AND database = current_database()"
                ).fetchone()
                == (0,)
            ),
        )


def test_names_of_the_connector_s_class(both: Both, config: dict[str, str]) -> None:
    """The same names are taken by both; by a short one ours runs, and Debezium's task fails. The others are refused by both."""
    # The task before it may hold the slot yet; Debezium would look again after ten seconds each time.
    config = config | {"slot.retry.delay.ms": "500", "slot.max.retries": "200"}
    for name in (CONNECTOR_CLASS, "PostgresConnector", "Postgres"):
        for side in (both.theirs, both.mine):
            own = {key: value.replace("{name}", side.name) for key, value in config.items()}
            answer = side.ask(put("/connectors/{name}/config", own | {"connector.class": name}))
            assert answer.status == 201, (side.url, answer)
            found = _task(side, name)
            if side is both.mine or name == CONNECTOR_CLASS:
                assert found["state"] == "RUNNING", found
            else:
                assert f"ClassNotFoundException: {name}" in found["trace"]
            # A connector that is only changed has the state of its former task for a while.
            assert side.ask(delete("/connectors/{name}")).status == 204
            until(f"{side.name} to be gone", lambda side=side: "tasks" not in side.status(), WAIT_SECONDS)
    for name in (
        "PostgresSource",
        "postgres",
        "postgresql.PostgresConnector",
        "Postgres ",
        "PostgresConnectorConnector",
    ):
        for side in (both.theirs, both.mine):
            own = {key: value.replace("{name}", side.name) for key, value in config.items()}
            answer = side.ask(put("/connectors/{name}/config", own | {"connector.class": name}))
            assert answer.status >= 400, (side.url, name, answer)
            assert "Failed to find any class that implements Connector" in answer.body["message"], (
                side.url,
                name,
            )


def _task(side: Api, name: str) -> Any:
    """The only task, once it runs or has failed."""

    def found() -> Any:
        tasks = side.status().get("tasks", ())
        return [task for task in tasks if task["state"] in {"RUNNING", "FAILED"}]

    (task,) = until(f"{side.name} of class {name} to begin", found, WAIT_SECONDS)
    return task


def test_methods_media_types_and_what_is_not_there(both: Both) -> None:
    both.ask(
        get("/"),
        get("/health"),
        get("/nowhere"),
        put("/"),
        Request("HEAD", "/connectors"),
        get("/connectors/{name}/"),
        Request("OPTIONS", "/nowhere"),
        *(
            Request("OPTIONS", path)
            for path in (
                "/",
                "/health",
                "/connectors",
                *(
                    f"/connectors/x{part}"
                    for part in (
                        *("", "/config", "/status", "/restart", "/pause", "/resume", "/stop", "/tasks"),
                        *(
                            "/tasks/0/status",
                            "/tasks/0/restart",
                            "/topics",
                            "/topics/reset",
                            "/offsets",
                            "/fence",
                        ),
                    )
                ),
                *("/connector-plugins", PLUGIN, f"{PLUGIN}/validate", "/admin/loggers", "/admin/loggers/x"),
            )
        ),
        delete("/connectors"),
        patch("/connectors"),
        get("/connectors/x/restart"),
        delete("/connectors/x/tasks/0/status"),
        Request("TRACE", "/connectors"),
        get("/connectors", Accept="text/html"),
        get("/connector-plugins", Accept="text/html, application/*;q=0.1"),
        get("/connectors?expand=bogus", Content_Type="text/plain"),
        post("/connectors", raw="{}", headers={"Content-Type": "text/plain"}),
        put("/connectors/x/pause", headers={"Content-Type": "application/vnd.x+json"}),
        post("/connectors", {"name": "x", "config": {}}, headers={"Content-Type": f"{JSON}; charset=utf-8"}),
        # A body that nobody reads means nothing; one that is read has to say that it is JSON.
        post("/connectors/none/restart", raw="x", typed=False),
        put("/connectors/none/pause", raw="x", typed=False),
        delete("/connectors/none", raw="x", typed=False),
        Request("GET", "/connectors/none", raw="x", typed=False),
        post("/connectors", raw="{}", typed=False),
        put("/connectors/none/config", raw="{}", typed=False),
        # As curl names the body of `-d ""`: what is not JSON is refused without a body, too.
        *(
            Request(method, f"/connectors{path}", raw=body, headers=FORM, typed=False)
            for body in (None, "", "x=1")
            for method, path in (
                *(("PUT", part) for part in ("/none/pause", "/none/config")),
                *(("POST", part) for part in ("", "/none/restart")),
                *(("PATCH", "/none/config"), ("DELETE", "/none"), ("GET", "/none")),
            )
        ),
        *(
            Request(method, f"/connectors/none{path}")
            for method, path in (
                *(("GET", part) for part in ("", "/config", "/status", "/tasks", "/offsets", "/topics")),
                *(
                    ("GET", part)
                    for part in ("/tasks-config", "/tasks/0", "/tasks/0/status", "/tasks/x/status")
                ),
                *(
                    ("PUT", part)
                    for part in ("/pause", "/resume", "/stop", "/topics/reset", "/fence", "/config")
                ),
                *(("POST", part) for part in ("/tasks/0/restart", "/tasks/x/restart", "/restart", "/tasks")),
                *(("POST", f"/restart?{part}") for part in ("includeTasks=true", "onlyFailed=true")),
                *(("DELETE", part) for part in ("", "/offsets")),
                *(("PATCH", part) for part in ("/config", "/offsets")),
            )
        ),
        get("/connectors/with%20space"),
        get("/connectors/%C3%A9/status"),
    )
    both.check()


def test_pages_of_other_origins(both: Both) -> None:
    a = "https://a.example"
    origins = (a, "HTTPS://x.B.example", "https://b.example", f"{a}.evil", "null", f"https://evil {a}")
    both.ask(
        *(get(path, Origin=origin) for origin in origins for path in ("/connectors", "/connectors/none")),
        get("/nowhere", Origin=a),
        post("/connectors", raw="{", headers={"Origin": a}),
        Request("OPTIONS", "/connectors", headers={"Origin": a}),
        *(
            Request("OPTIONS", "/connectors/x", headers={"Origin": origin, **asked})
            for origin in (a, "https://evil")
            for asked in (
                {"Access-Control-Request-Method": "PUT"},
                {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "x-other"},
            )
        ),
    )
    both.check()
    assert both.mine.ask(get("/", Origin=a)).headers == {
        "vary": ["Origin"],
        "access-control-allow-origin": [a],
        "x-many": ["a", "b", "c"],
        "x-one": ["2"],
    }


def test_bodies_that_cannot_be_taken(both: Both) -> None:
    both.ask(
        *(post("/connectors", raw=raw) for raw in ("{", "[]", '"x"', "null", "{}", '{"name":"x"}')),
        *(
            post("/connectors", body)
            for body in (
                {"config": {}},
                {"name": "x", "config": {}, "other": 1},
                {"name": "x", "config": "y"},
                {"name": "x", "config": {"a": {"b": 1}}},
                {"name": "x", "config": {"a": [1]}},
                {"name": "x", "config": {"name": "y"}},
                {"name": None, "config": {"name": "y"}},
                {"name": 5, "config": {"name": "y"}},
                {"name": "  y ", "config": {"name": "y"}},
                {"name": "x", "config": {"connector.class": "nope.Nope"}},
                {"name": "x", "config": {"connector.class": None}},
                {"name": "x", "config": {}, "initial_state": "BAD"},
                {"name": "x", "config": {}, "initial_state": "stopped"},
            )
        ),
        *(
            put("/connectors/none/config", raw=raw)
            for raw in ("null", "[]", "{}", '{"a":{}}', '{"a":null,"b":1}')
        ),
        put("/connectors/none/config", {"name": "other"}),
        patch("/connectors/none/config", {"a": "b"}),
        patch("/connectors/none/config"),
        patch("/connectors/none/config", raw="null"),
        put("/connectors/none/config", raw='{"name":"other"}' + " " * 2_000_000),
        post("/connectors/none/tasks", [{}]),
        *(
            patch("/connectors/none/offsets", body)
            for body in (
                {},
                [],
                {"x": 1},
                {"offsets": []},
                {"offsets": "x"},
                {"offsets": [{"partition": {"server": "x"}, "offset": {"lsn": 1}}]},
            )
        ),
    )
    both.check()


def test_a_connector_s_life(both: Both, config: dict[str, str], pg_database: str) -> None:
    name = "/connectors/{name}"
    here = {"server": "{name}"}
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
        connection.execute("INSERT INTO a VALUES (1)")
    offsets = [
        {"partition": here, "offset": {"lsn": 123}},
        {"partition": {"other": "{name}"}, "offset": {"foo": "x"}},
    ]
    created = {"name": "{name}", "config": config}
    parts = ("", "/config", "/status", "/tasks", "/tasks/0/status", "/tasks/1/status", "/topics")
    # What changes the configuration comes while nothing runs: a task takes its time to start.
    both.ask(post("/connectors", {**created, "initial_state": "STOPPED"}))
    both.wait("STOPPED")
    both.ask(
        *(get(name + part) for part in parts),
        post("/connectors", created),
        post("/connectors", {"name": "{name}", "config": {**config, "decimal.handling.mode": "bad"}}),
        put(f"{name}/config", {**config, "database.hostname": ""}),
        put(f"{name}/config", config),
        patch(f"{name}/config", {"poll.interval.ms": 100, "tasks.max": 1}),
        patch(f"{name}/config", {"poll.interval.ms": None, "no.such": None}),
        patch(f"{name}/config", {}),
        patch(f"{name}/config", raw="[]"),
        patch(f"{name}/config", {"connector.class": None}),
        post(f"{name}/restart"),
        post(f"{name}/tasks/0/restart"),
        patch(f"{name}/offsets", {"offsets": offsets}),
        patch(
            f"{name}/offsets",
            {
                "offsets": [
                    {"partition": None, "offset": {"a": 1.5}},
                    {"partition": here, "offset": None},
                    {"partition": {"twice": 1}, "offset": {"a": 1}},
                    {"partition": {"twice": 1}, "offset": {"a": 2}},
                ]
            },
        ),
        patch(f"{name}/offsets", {"offsets": [{"partition": "x", "offset": {}}]}),
    )
    left = [side.ask(get(f"{name}/offsets")).body["offsets"] for side in (both.theirs, both.mine)]
    assert sorted(map(str, left[0])) == sorted(map(str, left[1]))
    assert len(left[0]) == 2
    both.ask(delete(f"{name}/offsets"), get(f"{name}/offsets"), put(f"{name}/resume"))
    both.wait("RUNNING")
    topics = {"NAME": {"topics": ["NAME.public.a"]}}
    for side in (both.theirs, both.mine):
        until(
            f"{side.url} to say its topics",
            lambda side=side: side.ask(get(f"{name}/topics")).body == topics,
            WAIT_SECONDS,
        )
    both.ask(
        *(get(name + part) for part in parts),
        put(f"{name}/topics/reset"),
    )
    for side in (both.theirs, both.mine):
        until(
            f"{side.url} to have forgotten them",
            lambda side=side: side.ask(get(f"{name}/topics")).body == {"NAME": {"topics": []}},
            WAIT_SECONDS,
        )
    both.ask(
        delete(f"{name}/offsets"),
        patch(f"{name}/offsets", {"offsets": offsets}),
        post("/connectors", created),
        post(f"{name}/tasks/1/restart"),
        post(f"{name}/restart?includeTasks=maybe"),
        post(f"{name}/restart?includeTasks=true"),
    )
    both.wait("RUNNING")
    both.ask(put(f"{name}/pause"))
    both.wait("PAUSED")
    both.ask(get(f"{name}/status"), put(f"{name}/pause"), delete(f"{name}/offsets"), put(f"{name}/stop"))
    both.wait("STOPPED")
    both.ask(*(get(name + part) for part in parts[:-1]))
    expanded = "/connectors?expand=info&expand=status&expand=x"
    theirs, mine = (side.ask(get(expanded)).body["NAME"] for side in (both.theirs, both.mine))
    assert mine == theirs
    both.ask(
        *(delete(name), delete(name)),
        *(get(name + part) for part in (*parts, "/offsets")),
    )
    both.check()


def test_a_connector_that_is_paused_from_the_start(both: Both, config: dict[str, str]) -> None:
    name = "/connectors/{name}"
    parts = ("", "/status", "/tasks", "/tasks/0/status")
    both.ask(post("/connectors", {"name": "{name}", "config": config, "initial_state": "PAUSED"}))
    both.wait("PAUSED")
    both.ask(
        *(get(name + part) for part in parts),
        post(f"{name}/tasks/0/restart"),
        post(f"{name}/restart?includeTasks=true"),
        put(f"{name}/config", config | {"poll.interval.ms": "100"}),
    )
    both.wait("PAUSED")
    both.ask(*(get(name + part) for part in parts), put(f"{name}/stop"))
    both.wait("STOPPED")
    both.ask(put(f"{name}/pause"))
    both.wait("PAUSED")
    both.ask(*(get(name + part) for part in parts), put(f"{name}/resume"))
    both.wait("RUNNING")
    both.ask(put(f"{name}/pause"))
    both.wait("PAUSED")
    both.ask(*(get(name + part) for part in parts))
    both.check()


def test_log_levels(both: Both) -> None:
    logger = "/admin/loggers/{name}.x"
    both.ask(
        get(logger),
        put(logger, {"level": "debug"}),
        get(logger),
        get("/admin/loggers/{name}"),
        put("/admin/loggers/{name}", {"level": "TRACE"}),
        get(logger),
        *(put(logger, body) for body in ({"level": "bad"}, {"level": 5}, {}, {"level": None}, [])),
        put(f"{logger}?scope=bogus", {"level": "fatal", "more": "x"}),
        get(logger),
        put(f"{logger}?scope=cluster", {"level": "OFF"}),
        put(logger),
        delete("/admin/loggers/root"),
    )
    for side in (both.theirs, both.mine):
        until("the cluster's level", lambda side=side: side.ask(get(logger)).body["level"] == "OFF")
    both.check()


def test_plugins_and_validation(both: Both, config: dict[str, str]) -> None:
    validate = f"{PLUGIN}/validate"
    both.ask(
        get("/connector-plugins"),
        get("/connector-plugins/nope/config"),
        get("/connector-plugins/nope"),
        get(validate),
        put(validate),
        *(
            put(validate, body)
            for body in ([], {}, {"connector.class": "x"}, {"connector.class": "PostgresConnector"})
        ),
        put("/connector-plugins/nope/config/validate", {"connector.class": "nope"}),
    )
    both.check()
    theirs, mine = (
        {
            plugin["class"] + plugin["type"]: plugin
            for plugin in side.ask(get("/connector-plugins?connectorsOnly=false")).body
            # The scripted transforms of the real one are of another release, and in other languages.
            if plugin["class"] not in SCRIPTED
        }
        for side in (both.theirs, both.mine)
    )
    # Confluent's converter, the JDBC sinks and sources, those for files, objects, documents and HTTP, and Debezium's connectors of MariaDB and MySQL are not part of the real one here.
    only_mine = {name.rpartition(".")[2] for name in mine.keys() - theirs.keys()}
    assert only_mine == {
        "AvroConverterconverter",
        "FileStreamSinkConnectorsink",
        "FileStreamSourceConnectorsource",
        "HttpSinkConnectorsink",
        "JdbcSinkConnectorsink",
        "JdbcSourceConnectorsource",
        "MariaDbConnectorsource",
        "MongoSinkConnectorsink",
        "MySqlConnectorsource",
        "Neo4jConnectorsink",
        "ObjectStorageSinkConnectorsink",
        "OpenSearchSinkConnectorsink",
        "S3SinkConnectorsink",
        "WarehouseSinkConnectorsink",
    }
    assert {name: theirs[name] for name in mine.keys() & theirs.keys()} == {
        name: mine[name] for name in mine.keys() & theirs.keys()
    }
    for plugin in [plugin["class"] for plugin in mine.values() if plugin in theirs.values()]:
        shown = [
            definitions(side, f"/connector-plugins/{plugin}/config") for side in (both.theirs, both.mine)
        ]
        assert shown[1] == shown[0], plugin
    for changes in ({}, WRONG, ALSO_WRONG, CHAIN):
        body = {**config, "name": "{name}", **changes}
        theirs, mine = (validated(side, put(validate, body)) for side in (both.theirs, both.mine))
        assert mine == theirs, changes
