"""Business events are CloudEvents: what the SDKs of Python and of JavaScript read is what was published."""

import base64
import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary, from_structured
from cloudevents.core.formats.json import JSONFormat

from tidings_domain.evaluation.cloudevents import STRUCTURED_HEADERS, structured
from tidings_domain.evaluation.evaluate import PublishedEvent
from tidings_domain.testing import Rehearsal, insert

Load = Callable[..., Any]
Message = tuple[bytes, bytes, dict[str, bytes]]
READ = Path(__file__).parent / "cloudevents.mjs"
ENDING = {"deprecated": "2026-11-01", "sunset": "2027-05-01", "migration": "https://example.org/v2"}


@pytest.fixture
def published(box_domain: Load, box_contracts: dict[str, str]) -> list[PublishedEvent]:
    """Version 2 and the deprecated version 1 of one event."""
    path = "depot/box-packed/v1.avsc"
    ending = box_contracts | {path: json.dumps(json.loads(box_contracts[path]) | ENDING)}
    boxes = Rehearsal(box_domain(contracts=ending))
    told = boxes.when(
        insert("public.boxes", id=17, state="packed", note=None, owner_id=3),
        insert("public.items", box_id=17, no=1, weight="1.250", label=None),
    )
    return [one for one in told.published if one.topic.startswith("depot.box-packed")]


def binary(event: PublishedEvent) -> Message:
    return event.key, event.body, dict(event.headers)


def in_json(event: PublishedEvent) -> Message:
    return event.key, structured(event.event, event.headers), dict(STRUCTURED_HEADERS)


def attributes_of(event: BaseCloudEvent) -> dict[str, Any]:
    attributes = dict(event.get_attributes())
    attributes.pop("partitionkey", None)  # the SDK's name for the key
    return attributes


def expected(event: PublishedEvent) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "specversion": "1.0",
        "id": event.event_id,
        "type": event.topic,
        "source": "/tidings/depot/box",
        "subject": "17",
        "dataschema": f"urn:tidings:schema:depot:box-packed:{event.topic[-2:]}",
        "sequence": "0000000000000100-0000000",
    }
    if event.topic.endswith("v1"):
        wanted |= {
            "deprecated": "true",
            "deprecationfrom": "2026-11-01T00:00:00Z",
            "deprecationsunset": "2027-05-01T00:00:00Z",
            "deprecationmigration": "https://example.org/v2",
        }
    return wanted


MOMENT = datetime.datetime(2026, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)


def test_the_python_sdk_reads_both_modes(published: list[PublishedEvent]) -> None:
    assert [event.topic for event in published] == ["depot.box-packed.v2", "depot.box-packed.v1"]
    for event in published:
        key, value, headers = binary(event)
        read = from_binary(KafkaMessage(headers, key, value), JSONFormat())
        assert attributes_of(read) == expected(event) | {
            "datacontenttype": "application/avro",
            "time": MOMENT,
        }
        key, value, headers = in_json(event)
        read = from_structured(KafkaMessage(headers, key, value), JSONFormat())
        found = attributes_of(read) | {"time": read.get_time()}
        if event.topic.endswith("v1"):
            assert found["deprecated"] is True
            found["deprecated"] = "true"
        assert found == expected(event) | {"datacontenttype": "application/json", "time": MOMENT}
    assert read.get_data() == {"box_id": 17}
    _, value, _ = in_json(published[0])
    assert json.loads(value)["data"] == {"box_id": 17, "weight": "1.250", "owner": None}


@pytest.mark.tools
def test_the_javascript_sdk_reads_both_modes(
    node: Callable[..., Any], published: list[PublishedEvent]
) -> None:
    messages = [make(event) for event in published for make in (binary, in_json)]
    told = [
        {
            "key": key.decode(),
            "value": base64.b64encode(value).decode(),
            "headers": {name: text.decode() for name, text in headers.items()},
        }
        for key, value, headers in messages
    ]
    read = node(READ, json.dumps(told))
    assert [one["attributes"]["id"] for one in read] == [
        event.event_id for event in published for _ in range(2)
    ]
    newest_binary, newest_json, _, oldest_json = read
    for one, kind in ((newest_binary, "avro"), (newest_json, "json")):
        attributes = one["attributes"]
        assert (
            attributes["type"],
            attributes["subject"],
            attributes["time"],
            attributes["datacontenttype"],
        ) == (
            "depot.box-packed.v2",
            "17",
            "2026-01-01T00:00:01.000Z",
            f"application/{kind}",
        )
    assert newest_json["data"] == {"box_id": 17, "weight": "1.250", "owner": None}
    assert oldest_json["attributes"]["deprecated"] is True
