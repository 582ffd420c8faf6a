"""Kafka Connect's REST API and ours, asked alike, and their answers compared with what must differ masked."""

import contextlib
import http.client
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from side_by_side import until

WAIT_SECONDS = 180
JSON = "application/json"
_JAVA = re.compile(r"Source: REDACTED|^Cannot invoke |JsonToken|LinkedHashMap")
_EXCEPTION = re.compile(r"^(?:org\.apache\.kafka\.[\w.]+Exception: )+")
_NO_TYPE = re.compile(r"^Connector config \{.*\} contains no connector type$", re.S)
_MALFORMED = "a body of another shape"


@dataclass(frozen=True)
class Request:
    """A request; `{name}` in path and body stands for the side's connector."""

    method: str
    path: str
    body: Any = None
    raw: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    typed: bool = True
    """Whether it says that its body is JSON."""


def get(path: str, **headers: str) -> Request:
    return Request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})


def put(path: str, body: Any = None, **more: Any) -> Request:
    return Request("PUT", path, body, **more)


def post(path: str, body: Any = None, **more: Any) -> Request:
    return Request("POST", path, body, **more)


def patch(path: str, body: Any = None, **more: Any) -> Request:
    return Request("PATCH", path, body, **more)


def delete(path: str, **more: Any) -> Request:
    return Request("DELETE", path, **more)


@dataclass
class Answer:
    """What came back, masked."""

    status: int
    body: Any
    allow: list[str]
    location: str
    compact: bool
    """Whether the body, where it is JSON, has no space between its parts."""
    headers: dict[str, list[str]]
    """Those for pages of other origins, and those that the worker's properties add."""


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
        headers = {} if body is None or not request.typed else {"Content-Type": JSON}
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
            _is_compact(text),
            {
                name.lower(): sorted(part.strip() for part in (answer.getheader(name) or "").split(","))
                for name, _ in answer.getheaders()
                if name.lower().startswith(("access-control-", "vary", "x-"))
            },
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


def _is_compact(text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return True
    return any(
        text == json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only)
        for ascii_only in (True, False)
    )


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


NOT_INSTALLED_THERE = {
    "io.confluent.connect.s3.S3SinkConnector",
    "tidings.ObjectStorageSinkConnector",
    "tidings.WarehouseSinkConnector",
    "com.mongodb.kafka.connect.MongoSinkConnector",
    "io.aiven.kafka.connect.http.HttpSinkConnector",
    "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector",
    "org.neo4j.connectors.kafka.sink.Neo4jConnector",
    "io.aiven.connect.jdbc.JdbcSinkConnector",
    "io.aiven.connect.jdbc.JdbcSourceConnector",
    "io.confluent.connect.jdbc.JdbcSinkConnector",
    "io.confluent.connect.jdbc.JdbcSourceConnector",
    "io.debezium.connector.jdbc.JdbcSinkConnector",
    "io.debezium.connector.mariadb.MariaDbConnector",
    "io.debezium.connector.mysql.MySqlConnector",
    "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "org.apache.kafka.connect.file.FileStreamSourceConnector",
}
"""Connectors that our worker has and that the real one of these tests is started without."""


def _without_what_is_not_there(body: Any) -> Any:
    """An answer without the connectors that only we have: from the list of plugins, and from what is said of an unknown class."""
    if isinstance(body, list):
        return [
            each for each in body if not (isinstance(each, dict) and each.get("class") in NOT_INSTALLED_THERE)
        ]
    if isinstance(body, dict) and "available connectors are" in str(body.get("message")):
        message = body["message"]
        for name in NOT_INSTALLED_THERE:
            described = rf"PluginDesc\{{klass=class {re.escape(name)},[^}}]*\}}"
            message = re.sub(rf"{described}, |, {described}", "", message)
        return body | {"message": message}
    return body


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
            mine.body = _without_what_is_not_there(mine.body)
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
    return bool(connector == state and (tasks == [state] or (state in {"STOPPED", "PAUSED"} and not tasks)))
