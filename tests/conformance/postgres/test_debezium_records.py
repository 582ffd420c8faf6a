"""Our conversion plans write the records that the real Debezium writes, to the byte.

Compared are keys, values and headers of every record of every topic, with the connectors' own clocks masked. Known and
wanted differences, which the scenario therefore leaves out:

* Debezium's stream gives null for columns of type ``name`` (its snapshot gives the name); ours gives the name.
* Debezium loses BC and the calendar of old dates inside arrays; ours does not.
* Java before 19 writes some floats with a digit too many (1.23456792E8 for PostgreSQL's 1.2345679e+08); ours writes
  what Java 19 and later write.
* Debezium writes Java object names for arrays of several dimensions of some types; ours always writes nulls.
"""

import json
import re
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from plans.scenario import MORE_TYPES, TYPES

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
_MORE_OPTIONS = {
    "milliseconds and microseconds, types as parameters": {
        "column.propagate.source.type": "public\\.(odd_types|odd_arrays|domains|geometric|times|extension).*",
        "datatype.propagate.source.type": "public\\.numbers\\.(numeric|_numeric),public\\.dimensions\\..*",
    },
    "text times, text decimals, unknown types as bytes, maps": {
        "value.converter.schemas.enable": "false",
        "time.precision.mode": "isostring",
        "decimal.handling.mode": "string",
        "hstore.handling.mode": "map",
        "interval.handling.mode": "string",
        "include.unknown.datatypes": "true",
    },
    "nanoseconds, doubles, unknown types in hex": {
        "time.precision.mode": "nanoseconds",
        "decimal.handling.mode": "double",
        "include.unknown.datatypes": "true",
        "binary.handling.mode": "hex",
        # deletes of rows with a timestamp that must not be null end Debezium's task in this mode
        "table.exclude.list": "public\\.times_not_null",
    },
    "structured times, money with four decimals": {
        "time.precision.mode": "structured",
        "money.fraction.digits": "4",
        "include.unknown.datatypes": "true",
        "binary.handling.mode": "base64",
    },
    "microseconds": {
        "time.precision.mode": "microseconds",
        "table.include.list": "public\\.(times.*|numbers)",
    },
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("options", _OPTIONS.values(), ids=_OPTIONS.keys())
def test_every_record_is_debeziums(
    scenario: Callable[..., Any],
    reference: Callable[[Any], dict[str, Any]],
    ours: Callable[[Any], dict[str, Any]],
    options: dict[str, str],
) -> None:
    made = scenario({"key.converter": JSON, "value.converter": JSON, **options})
    compare(reference(made), ours(made))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("options", _MORE_OPTIONS.values(), ids=_MORE_OPTIONS.keys())
def test_every_record_of_more_types_is_debeziums(
    scenario: Callable[..., Any],
    reference: Callable[[Any], dict[str, Any]],
    ours: Callable[[Any], dict[str, Any]],
    options: dict[str, str],
) -> None:
    made = scenario({"key.converter": JSON, "value.converter": JSON, **options}, MORE_TYPES)
    compare(reference(made), ours(made))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("files", [TYPES, MORE_TYPES], ids=["types", "more types"])
def test_every_avro_record_and_schema_is_that_of_apicurios_converter(
    scenario: Callable[..., Any],
    reference: Callable[[Any], dict[str, Any]],
    ours: Callable[[Any], dict[str, Any]],
    registry_url: str,
    files: tuple[tuple[str, str], ...],
) -> None:
    """The registry gives equal schemas the same id, so that equal records mean equal schemas."""
    options = (
        {"table.exclude.list": "public\\.Odd-Name 1"} if files is TYPES else {"hstore.handling.mode": "map"}
    )
    made = scenario({**avro_converter_settings(registry_url), **options}, files)
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
    found = [
        f"record {number} of {topic}: {difference}"
        for topic in sorted(theirs)
        for number, (their_record, my_record) in enumerate(zip(theirs[topic], mine[topic], strict=True))
        for difference in differences(comparable(topic, my_record), comparable(topic, their_record))
    ]
    assert not found, "\n".join([f"{len(found)} differences", *found[:20]])


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
