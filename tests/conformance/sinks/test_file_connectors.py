"""Kafka Connect's connectors for files beside ours: the same file and the same records, and what comes of them compared.

The source's records and the offsets as they are stored are compared byte for byte, the sink's files too, and the REST
API's answers. Where ours differ on purpose (docs/sinks.md), what each side does is asserted.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rest_pairs.sides import Api, get, put
from rest_pairs.validation import definitions, validated
from side_by_side import rest, until

from tidings_envelope.decimals import decimal_to_bytes
from tidings_stack.connect import ConnectServer

PACKAGE = "org.apache.kafka.connect.file"
SOURCE, SINK = f"{PACKAGE}.FileStreamSourceConnector", f"{PACKAGE}.FileStreamSinkConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"


class Files:
    """One of the two: a worker, and what its connectors leave."""

    def __init__(self, url: str, name: str, bootstrap: str) -> None:
        self.url, self.name, self._bootstrap = url, name, bootstrap

    def start(self, config: Mapping[str, str]) -> None:
        status, answer = rest(f"{self.url}/connectors/{self.name}/config", "PUT", config)
        assert status in {200, 201}, answer
        self.wait("RUNNING")

    def wait(self, state: str) -> None:
        def there() -> bool:
            _, status = rest(f"{self.url}/connectors/{self.name}/status")
            tasks = [task["state"] for task in status.get("tasks", ())]
            return status.get("connector", {}).get("state") == state and (
                tasks == [state] or (state == "STOPPED" and not tasks)
            )

        until(f"{self.name} to be {state}", there)

    def stop(self) -> None:
        rest(f"{self.url}/connectors/{self.name}/stop", "PUT")
        self.wait("STOPPED")

    def resume(self) -> None:
        rest(f"{self.url}/connectors/{self.name}/resume", "PUT")
        self.wait("RUNNING")

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """An answer, without the connector's name."""
        status, answer = rest(f"{self.url}/connectors/{self.name}{path}", method, body)
        return status, json.loads(json.dumps(answer).replace(self.name, "NAME"))

    def records(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """All there are in the only partition of a topic."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "none", "enable.auto.commit": False}
        )
        try:
            place = TopicPartition(topic, 0, OFFSET_BEGINNING)
            _, end = consumer.get_watermark_offsets(place, 30)
            consumer.assign([place])
            found: list[tuple[bytes | None, bytes | None]] = []
            while len(found) < end:
                message = consumer.poll(30)
                assert message is not None
                assert message.error() is None, message.error()
                found.append((message.key(), message.value()))
            return found
        finally:
            consumer.close()

    def delete(self) -> None:
        rest(f"{self.url}/connectors/{self.name}", "DELETE")


@pytest.fixture
def sides(
    plugins: ConnectServer, worker_url: str, kafka_bootstrap: str, unique_name: str
) -> Iterator[tuple[Files, Files]]:
    """Theirs and ours."""
    both = tuple(
        Files(url, f"{unique_name}{side}", kafka_bootstrap)
        for url, side in ((plugins.url, "theirs"), (worker_url, "mine"))
    )
    yield both[0], both[1]
    for side in both:
        side.delete()


@pytest.fixture
def topic(kafka_bootstrap: str) -> Callable[..., str]:
    """Makes a topic with one partition, and writes values to it."""

    def make(name: str, values: list[Any] = []) -> str:  # noqa: B006 - it is not changed
        admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
        for made in admin.create_topics([NewTopic(name, 1, 1)]).values():
            made.result(60)
        producer = Producer({"bootstrap.servers": kafka_bootstrap})
        for value in values:
            producer.produce(name, None if value is None else json.dumps(value).encode())
        assert producer.flush(60) == 0
        return name

    return make


def append(file: Path, data: bytes) -> None:
    with file.open("ab") as end:
        end.write(data)


def test_lines_positions_and_answers_are_the_same(
    sides: tuple[Files, Files], topic: Callable[..., str], tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    for side in sides:
        topic(side.name)
        side.start({"connector.class": "FileStreamSource", "file": str(file), "topic": side.name})

    def both_have(count: int) -> list[tuple[bytes | None, bytes | None]]:
        for side in sides:
            until(f"{count} lines of {side.name}", lambda side=side: len(side.records(side.name)) >= count)
        theirs, mine = (side.records(side.name) for side in sides)
        assert mine == theirs
        assert len(mine) == count
        return mine

    append(file, b"one\n\ntwo\r\nthree\rfour\n tab\t\xff\x00 \nhal")
    assert len(both_have(6)) == 6
    append(file, b"f\n" + b"long" * 5000 + b"\nCR waits\r")
    assert (
        both_have(8)[6][1]
        == json.dumps(
            {"schema": {"type": "string", "optional": False}, "payload": "half"}, separators=(",", ":")
        ).encode()
    )
    append(file, b"\nend\n")
    both_have(10)
    for side in sides:
        side.stop()
    theirs, mine = (side.ask("GET", "/offsets") for side in sides)
    assert mine == theirs
    assert mine[1]["offsets"] == [
        {"partition": {"filename": str(file)}, "offset": {"position": file.stat().st_size}}
    ]
    append(file, b"after a stop\n")
    for side in sides:
        side.resume()
    both_have(11)
    for side in sides:
        side.stop()
    place = {"filename": str(file)}
    for partition, offset in (
        (place, {}),
        (place, {"position": "1"}),
        (place, {"position": 1.5}),
        (place, {"position": True}),
        (place, {"position": -1}),
        ({"x": 1}, {"position": 1}),
        (None, {"position": 1}),
        ({"x": 1}, None),
        (place, {"position": 4}),
    ):
        body = {"offsets": [{"partition": partition, "offset": offset}]}
        theirs, mine = (side.ask("PATCH", "/offsets", body) for side in sides)
        assert mine == theirs, body
    for side in sides:
        side.resume()
    again = both_have(21)
    assert again[11:] == again[1:11], "from the second line on"


def test_definitions_and_validation_are_the_same(sides: tuple[Files, Files], tmp_path: Path) -> None:
    apis = [Api(side.url, side.name) for side in sides]

    def own(shown: dict[str, Any], names: set[str]) -> dict[str, Any]:
        return {name: shown[name] for name in names & shown.keys()}

    for class_name, names in (
        (SOURCE, {"file", "topic", "batch.size"}),
        (SINK, {"file", "topics", "topics.regex"}),
    ):
        theirs, mine = (
            own(definitions(api, f"/connector-plugins/{class_name}/config"), names) for api in apis
        )
        assert mine.keys() == names
        for each in (*theirs.values(), *mine.values()):
            assert each.pop("documentation")
        assert mine == theirs
        for changes in (
            {},
            {"topic": "t", "topics": "t"},
            {"topic": "", "file": "", "topics": "t"},
            {"topic": " ", "batch.size": "many", "topics": ""},
            {"topic": "t", "batch.size": "-1", "file": str(tmp_path)},
            {"topic": "t", "batch.size": "3000000000", "topics": "a", "topics.regex": "b"},
        ):
            given = {name: text for name, text in changes.items() if name in names}
            body = {"connector.class": class_name, "name": "x", "tasks.max": "1", **given}
            path = f"/connector-plugins/{class_name}/config/validate"
            reports = [validated(api, put(path, body)) for api in apis]
            theirs, mine = (own(report["configs"], names) for report in reports)
            for each in (*theirs.values(), *mine.values()):
                each["definition"].pop("documentation")
            assert mine == theirs, body
            assert reports[1]["groups"] == reports[0]["groups"], body
            counts = [api.ask(put(path, body)).body["error_count"] for api in apis]
            assert counts[1] == counts[0], body
    listed = [
        {
            each["class"]: each
            for each in api.ask(get("/connector-plugins")).body
            if each["class"].startswith(PACKAGE)
        }
        for api in apis
    ]
    assert listed[1] == listed[0]
    assert listed[1].keys() == {SOURCE, SINK}


def field(name: str, kind: str, /, **more: Any) -> dict[str, Any]:
    return {"field": name, "type": kind, "optional": True, **more}


def logical(name: str, kind: str, logical_name: str, **parameters: str) -> dict[str, Any]:
    return field(
        name, kind, name=f"org.apache.kafka.connect.data.{logical_name}", version=1, parameters=parameters
    )


def decimal(text: str, scale: int) -> str:
    return base64.b64encode(decimal_to_bytes(Decimal(text), scale)).decode()


INNER = {"type": "struct", "optional": True, "fields": [field("city", "string"), field("zip", "int32")]}
FIELDS = [
    field("b", "boolean"), field("i8", "int8"), field("i64", "int64"), field("f", "float"), field("d", "double"),
    field("s", "string"), field("dec", "bytes", name="org.apache.kafka.connect.data.Decimal", version=1, parameters={"scale": "9"}),
    logical("day", "int32", "Date"), logical("clock", "int32", "Time"), logical("moment", "int64", "Timestamp"),
    field("list", "array", items={"type": "int32", "optional": True}),
    field("map", "map", keys={"type": "string"}, values={"type": "int32", "optional": True}),
    {**INNER, "field": "inner"},
    {"field": "with_default", "type": "string", "optional": True, "default": "x"},
]  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {
        "b": True, "i8": -128, "i64": 2**63 - 1, "f": 1.1, "d": 1e-7, "s": "a\nb\u2713", "dec": decimal("1.5", 9),
        "day": 20_000, "clock": 86_399_999, "moment": 1_767_225_601_234, "list": [1, None, -3],
        "map": {f"key{n}": n for n in range(30)}, "inner": {"city": "Oslo", "zip": 150}, "with_default": "y",
    },
    {
        "b": False, "i8": 0, "i64": -1, "f": 1e10, "d": 100.0, "s": "", "dec": decimal("0", 9), "day": -1,
        "clock": 0, "moment": -1, "list": [], "map": {}, "inner": {"city": None, "zip": None},
    },
    {"f": 3.4e38, "d": 12345678.9, "dec": decimal("-123456789012345678901234567890.000000001", 9), "day": -200_000, "moment": -62_000_000_000_000},
    {"dec": decimal("0.000000001", 9), "d": 0.0, "day": -141_428, "moment": -12_219_292_800_000, "map": {"Aa": 1, "BB": 2, "C#": None}},
    {"day": -141_427, "moment": 4_102_444_800_000},
]  # fmt: skip


def with_schema(row: dict[str, Any]) -> dict[str, Any]:
    full = {each["field"]: row.get(each["field"]) for each in FIELDS}
    return {"schema": {"type": "struct", "optional": True, "fields": FIELDS}, "payload": full}


@pytest.mark.parametrize("schemas", [True, False])
def test_files_are_the_same(
    sides: tuple[Files, Files], topic: Callable[..., str], tmp_path: Path, unique_name: str, schemas: bool
) -> None:
    plain = [
        {"b": 1, "a": [1.5, "x", None, {"z": True}], "longer name": None, "ä": "ö", "nested": {"y": {}, "x": []}},
        {f"field{n}": n for n in range(100)},
        ["a", 1, False], "text", 17, 2.5, True, None,
    ]  # fmt: skip
    values = [*map(with_schema, ROWS), None] if schemas else plain
    topic(unique_name, values)
    files = []
    for side in sides:
        files.append(tmp_path / side.name)
        files[-1].write_text("kept\n")
        side.start(
            {
                "connector.class": SINK, "topics": unique_name, "file": str(files[-1]), "value.converter": JSON,
                "value.converter.schemas.enable": str(schemas).lower(),
            }
        )  # fmt: skip
    done = {
        "offsets": [
            {
                "partition": {"kafka_topic": unique_name, "kafka_partition": 0},
                "offset": {"kafka_offset": len(values)},
            }
        ]
    }
    for side in sides:
        until(f"{side.name} to commit", lambda side=side: side.ask("GET", "/offsets")[1] == done)
    theirs, mine = (file.read_text().split("\n") for file in files)
    for side in sides:
        side.stop()
    resets = [side.ask("DELETE", "/offsets") for side in sides]
    assert resets[1] == resets[0]
    assert mine == theirs
    assert len(mine) > len(values)


def test_known_differences(sides: tuple[Files, Files], topic: Callable[..., str], tmp_path: Path) -> None:
    """Lines beyond ``batch.size`` wait there until the file grows, and positions count characters."""
    file = tmp_path / "lines"
    file.write_bytes("ä1\nä2\nä3\n".encode())
    for side in sides:
        topic(side.name)
        side.start({"connector.class": SOURCE, "file": str(file), "topic": side.name, "batch.size": "1"})
    theirs, mine = sides
    until("all lines of ours", lambda: len(mine.records(mine.name)) == 3)
    until("the first of theirs", lambda: len(theirs.records(theirs.name)) >= 1)
    for side in sides:
        side.stop()
    assert len(theirs.records(theirs.name)) == 1
    place = {"filename": str(file)}
    assert theirs.ask("GET", "/offsets")[1]["offsets"] == [{"partition": place, "offset": {"position": 3}}]
    assert mine.ask("GET", "/offsets")[1]["offsets"] == [{"partition": place, "offset": {"position": 12}}]
