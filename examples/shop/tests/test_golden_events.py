"""Bytes of every released event version stay readable: what was published once is read by today's contracts.

`golden/<topic>.<n>.json` holds the schema that wrote the bytes, the bytes in hex, and the values. A file is never
changed; when a contract changes within its major version, a file with the next number is added.
"""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from fastavro.schema import to_parsing_canonical_form

import tidings_shop.events as generated
from tidings_domain import BusinessEvent
from tidings_domain.language.events import contract_of, encoder_of, is_generated, topic_of
from tidings_domain.loading.conversions import sample_event

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.json"))
EVENTS = sorted(
    {
        value
        for value in vars(generated).values()
        if isinstance(value, type) and issubclass(value, BusinessEvent) and is_generated(value)
    },
    key=topic_of,
)


def read(schema: Any, body: bytes, reader_schema: Any = None) -> Any:
    stream = io.BytesIO(body)
    value = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), reader_schema)
    assert stream.read() == b"", "bytes are left over"
    return value


def canonical(schema: Any) -> str:
    """What of a schema decides about bytes: documentation may change freely."""
    text: str = to_parsing_canonical_form(fastavro.parse_schema(schema))
    return text


def shown(value: Any) -> Any:
    """Values as JSON has them, which is how the golden files show them."""
    return json.loads(json.dumps(value, default=str, sort_keys=True))


@pytest.mark.listing
@pytest.mark.parametrize("event", EVENTS, ids=topic_of)
def test_every_event_version_has_golden_bytes_of_its_contract(event: type[BusinessEvent]) -> None:
    schema = contract_of(event)
    body = encoder_of(event)(sample_event(event, full=True))
    wanted = {"schema": schema, "body": body.hex(), "value": shown(read(schema, body))}
    found = [
        json.loads(file.read_text(encoding="utf-8")) for file in GOLDEN.glob(f"{topic_of(event)}.*.json")
    ]
    known = [(canonical(one["schema"]), one["body"], one["value"]) for one in found]
    assert (canonical(schema), wanted["body"], wanted["value"]) in known, (
        f"add golden/{topic_of(event)}.{len(found) + 1}.json with:\n{json.dumps(wanted)}"
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_golden_bytes_are_still_read_as_what_was_written(file: Path) -> None:
    golden = json.loads(file.read_text(encoding="utf-8"))
    topic = file.name.rsplit(".", 2)[0]
    event = next(one for one in EVENTS if topic_of(one) == topic)
    body = bytes.fromhex(golden["body"])
    assert shown(read(golden["schema"], body)) == golden["value"]
    value = read(golden["schema"], body, fastavro.parse_schema(contract_of(event)))
    common = {name: one for name, one in shown(value).items() if name in golden["value"]}
    assert common == {name: one for name, one in golden["value"].items() if name in common}
