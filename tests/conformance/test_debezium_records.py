"""Our conversion plans write the records that the real Debezium writes, to the byte.

Compared are keys, values and headers of every record of every topic, with the connectors' own clocks masked. Known and
wanted differences, which the scenario therefore leaves out:

* Debezium's stream gives null for columns of type ``name`` (its snapshot gives the name); ours gives the name.
* Debezium loses BC and the calendar of old dates inside arrays; ours does not.
* Java before 19 writes some floats with a digit too many (1.23456792E8 for PostgreSQL's 1.2345679e+08); ours writes
  what Java 19 and later write.
* Debezium writes nulls or Java object names for arrays of several dimensions; ours refuses them by name.
"""

import json
import re
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tidings_envelope.wire import HEADER_BYTES, split
from tidings_stack.connect import avro_converter_settings

JSON = "org.apache.kafka.connect.json.JsonConverter"

_CLOCK = re.compile(rb'("op":"."),"ts_ms":\d+,"ts_us":\d+,"ts_ns":\d+')
_AVRO_CLOCK_BYTES = 26
"""Three optional longs at the end: milliseconds, microseconds and nanoseconds of this century."""
_OPTIONS = {
    "json with schemas": {},
    "json without schemas, text decimals, base64, no tombstones, unknown types": {
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "decimal.handling.mode": "string",
        "time.precision.mode": "adaptive_time_microseconds",
        "binary.handling.mode": "base64",
        "interval.handling.mode": "string",
        "include.unknown.datatypes": "true",
        "tombstones.on.delete": "false",
    },
    "double decimals, connect times, hex": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "connect",
        "binary.handling.mode": "hex",
    },
    "numeric json decimals, no replacement of nulls, url-safe base64": {
        "value.converter.decimal.format": "NUMERIC",
        "value.converter.replace.null.with.default": "false",
        "binary.handling.mode": "base64-url-safe",
    },
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("options", _OPTIONS.values(), ids=_OPTIONS.keys())
def test_every_record_is_debeziums(
    scenario: Callable[[Mapping[str, str]], Any],
    reference: Callable[[Any], dict[str, Any]],
    ours: Callable[[Any], dict[str, Any]],
    options: dict[str, str],
) -> None:
    made = scenario({"key.converter": JSON, "value.converter": JSON, **options})
    compare(reference(made), ours(made))


@pytest.mark.timeout(400)
def test_every_avro_record_and_schema_is_that_of_apicurios_converter(
    scenario: Callable[[Mapping[str, str]], Any],
    reference: Callable[[Any], dict[str, Any]],
    ours: Callable[[Any], dict[str, Any]],
    registry_url: str,
) -> None:
    """The registry gives equal schemas the same id, so that equal records mean equal schemas."""
    made = scenario({**avro_converter_settings(registry_url), "table.exclude.list": "public\\.Odd-Name 1"})
    theirs, mine = reference(made), ours(made)
    for topic in sorted(theirs):
        for their_record, my_record in zip(theirs[topic], mine[topic], strict=True):
            for their_part, my_part in zip(their_record[:2], my_record[:2], strict=True):
                if (their_part or b"")[:HEADER_BYTES] != (my_part or b"")[:HEADER_BYTES]:
                    assert schema_text(registry_url, my_part) == schema_text(registry_url, their_part)
    compare(theirs, mine)


def schema_text(registry_url: str, value: bytes) -> str:
    """The text of the schema that a value was written with."""
    with urllib.request.urlopen(f"{registry_url}/schemas/ids/{split(value)[0]}", timeout=30) as answer:
        return str(json.load(answer)["schema"])


def compare(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    assert {topic: len(records) for topic, records in mine.items()} == {
        topic: len(records) for topic, records in theirs.items()
    }
    for topic in sorted(theirs):
        for number, (their_record, my_record) in enumerate(zip(theirs[topic], mine[topic], strict=True)):
            assert differences(comparable(topic, my_record), comparable(topic, their_record)) == [], (
                f"record {number} of {topic}"
            )


def differences(mine: Any, theirs: Any) -> list[str]:
    """What differs, in words that fit on a screen: a value is some kilobytes of schema and payload."""
    found = []
    for what, my_part, their_part in zip(("key", "value"), mine, theirs, strict=False):
        if my_part != their_part:
            pairs = enumerate(zip(my_part or b"", their_part or b"", strict=False))
            start = next((i for i, (a, b) in pairs if a != b), 0)
            window = slice(max(0, start - 60), start + 60)
            found.append(
                f"{what} at {start}: {(my_part or b'')[window]!r} is not {(their_part or b'')[window]!r}"
            )
    if mine[2] != theirs[2]:
        found.append(f"headers {mine[2]} are not {theirs[2]}")
    return found


def comparable(topic: str, record: Any) -> Any:
    """A record without what differs from run to run: the connector's clock, and headers about its process."""
    key, value, headers = record
    kept = [header for header in headers or () if not header[0].startswith("__debezium.context.")]
    if value is not None and not topic.endswith(".transaction"):
        value = value[:-_AVRO_CLOCK_BYTES] if value.startswith(b"\0") else _CLOCK.sub(rb"\1", value)
    return key, value, kept
