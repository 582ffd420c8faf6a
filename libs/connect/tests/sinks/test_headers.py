"""The headers that a sink is given: text that looks like a value is one, and no record changes another's."""

from types import SimpleNamespace
from typing import Any

from tidings_connect.data.subscription import Consumed
from tidings_connect.task.sink.records import Records
from tidings_connect.task.sink.task import SinkRecord

JSON = "org.apache.kafka.connect.json.JsonConverter"


def made(records: Records, *headers: tuple[str, bytes | None]) -> SinkRecord:
    (found,) = records.made([Consumed("t", 0, 0, None, b'{"a": 1}', headers, None)])
    assert isinstance(found, SinkRecord)
    return found


def test_headers_are_read_anew_where_a_record_could_change_them() -> None:
    config = {"key.converter": JSON, "value.converter": JSON, "value.converter.schemas.enable": "false"}
    job: Any = SimpleNamespace(config=config, converters=config)
    nobody: Any = None
    records = Records(job, nobody, nobody)
    long = b"x" * 200
    given = (
        ("n", b"7"),
        ("t", b"shop"),
        ("l", b"[1, 2]"),
        ("m", b'{"a": 1}'),
        ("none", None),
        ("long", long),
    )
    first = made(records, *given)
    first.headers[2].value.append(3)
    first.headers[3].value["b"] = 2
    second = made(records, *given, ("u", b"\xc3\xa4"))
    values = [header.value for header in second.headers]
    assert values == [7, "shop", [1, 2], {"a": 1}, None, long.decode(), "ä"]
    assert [header.key for header in second.headers] == ["n", "t", "l", "m", "none", "long", "u"]
    for number in range(5_000):
        assert made(records, ("n", str(number).encode())).headers[0].value == number
    same = [made(records, ("n", b"7"), ("t", b"shop")).headers for _ in range(3)]
    assert [header.value for header in same[1]] == [7, "shop"]
    same[1].pop()
    assert same[0] == same[2] == made(records, ("n", b"7"), ("t", b"shop")).headers
