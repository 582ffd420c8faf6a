"""Records whose values lack a field that their schema names, as a transform of one's own may leave them: each is named, or a dead
letter, and the others are written."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sink_targets import Sink
from table_records import LETTERS, UPSERT
from warehouse_parts import ask

from tidings_connect.limits import TRANSFORM_MODULES, current_limits, read_limits, set_limits

Target = Callable[..., list[tuple[Any, ...]]]
SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int64"},
        {"field": "amount", "type": "int32"},
        {"field": "note", "type": "string", "optional": True},
    ],
}
KEY = {"type": "struct", "fields": SCHEMA["fields"][:1]}
TRANSFORM = """
from tidings_connect.transforms.record import Transform

class Forget(Transform):
    def apply(self, record):
        value = dict(record.value)
        if value.pop("note") != "forget":
            return record
        return record.with_value(record.value_schema, value)
"""
JSON = "org.apache.kafka.connect.json.JsonConverter"
CONFIG = {
    **UPSERT,
    "key_converter": JSON,
    "value_converter": JSON,
    "key_converter_schemas_enable": "true",
    "value_converter_schemas_enable": "true",
    "transforms": "f",
    "transforms_f_type": "forgetting:Forget",
}


@pytest.fixture(autouse=True)
def forgetting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The transform, which the worker allows."""
    (tmp_path / "forgetting.py").write_text(TRANSFORM)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = current_limits()
    set_limits(read_limits({TRANSFORM_MODULES: "forgetting"}))
    yield
    set_limits(before)
    sys.modules.pop("forgetting", None)


def send(sink: Sink, row: Mapping[str, object]) -> None:
    key = {"schema": KEY, "payload": {"id": row["id"]}}
    sink.send("t", key, {"schema": SCHEMA, "payload": row})


def test_the_record_is_named(sink: Sink) -> None:
    send(sink, {"id": 1, "amount": 1, "note": "forget"})
    sink.start("t", **CONFIG)
    with pytest.raises(AssertionError, match="the task failed"):
        sink.wait()
    said = str(sink.worker.error)
    assert "topic t, partition 0, offset 0" in said
    assert "the value has no field note, which its schema names" in said


def test_it_becomes_a_dead_letter_and_the_others_are_written(sink: Sink, target: Target) -> None:
    for number, note in enumerate(["forget", "a", None, "forget", "b"]):
        send(sink, {"id": number, "amount": 1, "note": note})
    sink.start("t", **CONFIG, **LETTERS)
    sink.wait()
    assert target("SELECT id, note FROM t ORDER BY id") == [(1, "a"), (2, None), (4, "b")]
    letters = sink.worker.kafka.topics["letters"]
    assert [json.loads(key)["payload"] for key, _, _ in letters] == [{"id": 0}, {"id": 3}]
    for _, _, headers in letters:
        assert b"has no field note" in dict(headers)["__connect.errors.exception.message"]


def test_a_warehouse_does_the_same(warehouse: tuple[Sink, Path]) -> None:
    sink, file = warehouse
    for number, note in enumerate(["forget", "a", "forget", "b"]):
        send(sink, {"id": number, "amount": 1, "note": note})
    names = {"primary_key_mode": "pk_mode", "schema_evolution": "auto_create"}
    config = {names.get(name, name): value for name, value in CONFIG.items()} | {"auto_create": "true"}
    sink.start("t", **config, **LETTERS)
    sink.wait()
    assert ask(file, "SELECT id, note FROM t ORDER BY id") == [(1, "a"), (3, "b")]
    assert len(sink.worker.kafka.topics["letters"]) == 2
