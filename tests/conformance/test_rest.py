"""Kafka Connect's REST API: the same sequence of requests to a real Kafka Connect and to a real worker.

Status, ``Allow`` and ``Location`` and the body of each answer are the same. Masked: names and addresses that must
differ, passwords (Kafka Connect shows them, we never do), texts of definitions, and what Java says of a body that
it cannot read.
"""

import contextlib
import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from side_by_side import CONNECTOR_CLASS, until

WAIT_SECONDS = 180
JSON = "application/json"
_JAVA = re.compile(r"Source: REDACTED|^Cannot invoke |JsonToken|LinkedHashMap")
_EXCEPTION = re.compile(r"^(?:org\.apache\.kafka\.[\w.]+Exception: )+")
_NO_TYPE = re.compile(r"^Connector config \{.*\} contains no connector type$", re.S)
_MALFORMED = "a body of another shape"
PLUGIN = f"/connector-plugins/{CONNECTOR_CLASS}/config"
SCRIPTED = {"io.debezium.transforms.ContentBasedRouter", "io.debezium.transforms.Filter"}


@dataclass(frozen=True)
class Request:
    """A request; `{name}` in path and body stands for the side's connector."""

    method: str
    path: str
    body: Any = None
    raw: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


def get(path: str, **headers: str) -> Request:
    return Request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})


def put(path: str, body: Any = None, **more: Any) -> Request:
    return Request("PUT", path, body, **more)


def post(path: str, body: Any = None, **more: Any) -> Request:
    return Request("POST", path, body, **more)


def patch(path: str, body: Any = None, **more: Any) -> Request:
    return Request("PATCH", path, body, **more)


def delete(path: str) -> Request:
    return Request("DELETE", path)


@dataclass
class Answer:
    """What came back, masked."""

    status: int
    body: Any
    allow: list[str]
    location: str


class Api:
    """One of the two."""

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.name = name
        self._host = urlsplit(url).netloc

    def ask(self, request: Request) -> Answer:
        body = request.raw
        if body is None and request.body is not None:
            body = json.dumps(request.body)
        headers = {} if body is None else {"Content-Type": JSON}
        connection = http.client.HTTPConnection(self._host, timeout=120)
        with contextlib.closing(connection):
            connection.request(
                request.method,
                request.path.replace("{name}", self.name),
                None if body is None else body.replace("{name}", self.name).encode(),
                headers | request.headers,
            )
            answer = connection.getresponse()
            text = answer.read().decode()
        return Answer(
            answer.status,
            self._masked(text),
            # With 405, HTTP asks for it; Kafka Connect leaves it out.
            sorted(part.strip() for part in (answer.getheader("Allow") or "").split(","))
            if answer.status != 405
            else [],
            self._renamed(answer.getheader("Location") or ""),
        )

    def _renamed(self, text: str) -> str:
        return text.replace(self._host, "HOST").replace(self.name, "NAME")

    def _masked(self, text: str) -> Any:
        text = self._renamed(text)
        try:
            return _without_differences(json.loads(text))
        except ValueError:
            return sorted(text.split(", "))

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask(get("/connectors/{name}/status")).body
        return found


def _without_differences(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_differences(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _without_differences(item) for key, item in value.items()}
    for name in ("commit", "kafka_cluster_id", "last_modified", "documentation"):
        if found.get(name) is not None:
            found[name] = "..."
    if found.get("state") == "RESTARTING":
        found.pop("version", None)  # not known in Kafka Connect while the one before has not ended
    if found.get("database.password"):
        found["database.password"] = "********"
    if "message" in found and found.get("error_code"):
        found["message"] = _message(found["error_code"], found["message"])
    return found


def _message(status: int, text: str) -> str:
    if status == 500 and _JAVA.search(text):
        return _MALFORMED
    return _NO_TYPE.sub("Connector config {...} contains no connector type", _EXCEPTION.sub("", text))


class Both:
    """The two, asked alike."""

    def __init__(self, theirs: Api, mine: Api) -> None:
        self.theirs = theirs
        self.mine = mine
        self.differences: list[str] = []

    def ask(self, *requests: Request) -> None:
        """Ask both, and note where the answers differ."""
        for request in requests:
            theirs, mine = self.theirs.ask(request), self.mine.ask(request)
            if theirs.status == mine.status == 500 and _MALFORMED in str(theirs.body):
                mine.body = theirs.body
            if mine != theirs:
                what = f"{request.method} {request.path} {request.body or request.raw or ''}"
                self.differences.append(f"{what}\n    {theirs}\n    {mine}")

    def wait(self, state: str) -> None:
        """Wait until both connectors and their tasks are in a state."""
        for side in (self.theirs, self.mine):
            until(f"{side.url} to be {state}", lambda side=side: _is(side.status(), state), WAIT_SECONDS)

    def check(self) -> None:
        found, self.differences = self.differences, []
        assert not found, "theirs, then mine:\n" + "\n".join(found)


def _is(status: dict[str, Any], state: str) -> bool:
    tasks = [task["state"] for task in status.get("tasks", ())]
    connector = status.get("connector", {}).get("state")
    return bool(connector == state and (tasks == [state] or (state == "STOPPED" and not tasks)))


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
    # Confluent's converter is not part of the real one here.
    only_mine = {name.rpartition(".")[2] for name in mine.keys() - theirs.keys()}
    assert only_mine == {"AvroConverterconverter"}
    assert {name: theirs[name] for name in mine.keys() & theirs.keys()} == {
        name: mine[name] for name in mine.keys() & theirs.keys()
    }
    for plugin in [plugin["class"] for plugin in mine.values() if plugin in theirs.values()]:
        shown = [
            _definitions(side, f"/connector-plugins/{plugin}/config") for side in (both.theirs, both.mine)
        ]
        assert shown[1] == shown[0], plugin
    for changes in ({}, WRONG, CHAIN):
        body = {**config, "name": "{name}", **changes}
        theirs, mine = (_validated(side, put(validate, body)) for side in (both.theirs, both.mine))
        assert mine == theirs, changes


WRONG = {
    "name": "",
    "tasks.max": "0",
    "config.action.reload": "bad",
    "errors.retry.delay.max.ms": "x",
    "topic.prefix": "a b",
    "database.hostname": "",
    "slot.name": "Bad-Name",
    "decimal.handling.mode": "bad",
    "time.precision.mode": "bad",
    "database.sslmode": "bad",
    "table.include.list": "a",
    "table.exclude.list": "b",
    "slot.drop.on.stop": "maybe",
    "database.port": "abc",
    "heartbeat.interval.ms": "-1",
    "snapshot.max.threads": "0",
    "notification.enabled.channels": "sink",
    "key.converter": "nope",
    "transforms": "a,b,c",
    "transforms.a.type": "nope",
    "transforms.b.type": "org.apache.kafka.connect.transforms.HoistField$Value",
}
CHAIN = {
    "transforms": "a,b",
    "transforms.a.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.a.static.field": "f",
    "transforms.a.static.value": "v",
    "transforms.a.predicate": "p",
    "transforms.b.type": "io.debezium.transforms.ExtractNewRecordState",
    "predicates": "p",
    "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.p.pattern": "x",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.decimal.format": "NUMERIC",
    "skipped.operations": "none",
}
LEFT_OUT = {
    "snapshot.mode": {"custom"},
    "lsn.flush.mode": {"connector_and_driver", "manual"},
    "schema.refresh.mode": {"columns_diff_exclude_unchanged_toast"},
    "snapshot.isolation.mode": {"read_uncommitted", "read_committed"},
    "snapshot.query.mode": {"custom"},
    "snapshot.locking.mode": {"shared", "custom"},
    "event.processing.failure.handling.mode": {"warn", "ignore", "skip"},
    "guardrail.collections.limit.action": {"warn", "fail"},
    "lsn.flush.timeout.action": {"fail", "warn", "ignore"},
    "plugin.name": {"decoderbufs"},
}
"""What Debezium recommends and we do not implement, so do not recommend."""


def _definitions(side: Api, path: str) -> dict[str, Any]:
    return {d["name"]: d for d in side.ask(get(path)).body if d["group"] != "TIDINGS"}


def _validated(side: Api, request: Request) -> dict[str, Any]:
    """A report by option; each problem counted once."""
    report = side.ask(request).body
    configs = {}
    for entry in report["configs"]:
        definition, value = entry["definition"], entry["value"]
        name = value["name"]
        if definition is not None and definition["group"] == "TIDINGS":
            continue
        values = set(value["recommended_values"])
        if "." in "".join(values):
            values = {"classes" if "Con" in text or "transforms" in text else text for text in values}
        configs[name] = {
            "definition": definition,
            "value": value["value"],
            "errors": sorted(
                {
                    text
                    for text in value["errors"]
                    if "value is invalid: An integer" in text or "regex" not in text
                }
            ),
            "visible": value["visible"],
            "recommended": values - LEFT_OUT.get(name, set()),
        }
    return {
        "name": report["name"],
        "groups": sorted(group for group in report["groups"] if group != "TIDINGS"),
        "configs": configs,
    }
