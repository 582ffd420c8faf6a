"""Two generations' events compared: pairs by id, by place, field by field, in any order of arrival."""

import json
import random
from typing import Any

import pytest

from tidings_translator.errors import GenerationError
from tidings_translator.generation_diff import Comparison, Said, as_json, differing, report, said_of

TOPIC = "shop.order-placed.v1"


def said(number: int, lsn: int = 10, key: str = "1", **payload: Any) -> Said:
    return Said(f"id{number}", key, lsn, json.dumps(payload).encode())


def compare(live: list[Said], shadow: list[Said], *, upto: int = 100, examples: int = 3) -> Comparison:
    comparison = Comparison(TOPIC, json.loads, upto=upto, examples=examples)
    both = [("live", one) for one in live] + [("shadow", one) for one in shadow]
    random.Random(len(both)).shuffle(both)
    for side, one in both:
        comparison.take("live" if side == "live" else "shadow", one)
    return comparison


def test_same_changed_and_only_in_one() -> None:
    lines = [{"price": 1}, {"price": 2}]
    live = [
        said(1, total=5, name="Ann"),
        said(2, total=5, name="Ann"),
        said(3, lines=lines),
        said(4, lsn=20, key="7", name="Bob"),
        said(6, lsn=101, name="newer than both have"),
    ]
    shadow = [
        said(1, total=5, name="Ann"),
        said(2, total=6, name="ANN"),
        said(3, lines=[{"price": 3}, {"price": 4}, {"price": 5}]),
        said(5, lsn=30, key="8", name="Cid"),
    ]
    found = compare(live, shadow).finish()
    assert (found.same, found.changed, found.only_live, found.only_shadow) == (1, 2, 1, 1)
    assert found.fields == {"total": 1, "name": 1, "lines[].price": 1, "lines[]": 1}, (
        "of events, not of places"
    )
    assert not found.none
    text = report([found])
    assert 'name: "Ann" -> "ANN"' in text
    assert "only in live: 7 at commit 14\n" in text
    assert 'name: "Cid"' in text
    assert "newer than both" not in text
    document = json.loads(as_json(found))
    assert document["only_shadow"] == 1
    changed = [one["fields"] for one in document["examples"] if one["kind"] == "changed"]
    assert {"total": [5, 6], "name": ["Ann", "ANN"]} in changed


def test_other_spellings_and_other_ids() -> None:
    """A value that is written otherwise is the same; the same fact under another id is one change and not two losses."""
    spelled = Said("id1", "1", 10, b'{"a":  1}')
    found = compare([said(1, a=1)], [spelled]).finish()
    assert (found.same, found.none) == (1, True)
    found = compare([said(2, a=1), said(3, a=2)], [said(4, a=1), said(5, a=2)]).finish()
    assert (found.changed, found.only_live, found.only_shadow) == (2, 0, 0)
    assert found.fields["(id)"] == 2


def test_examples_are_few_and_can_be_none() -> None:
    live = [said(number, lsn=number) for number in range(50)]
    found = compare(live, [], examples=2).finish()
    assert (found.only_live, len(found.examples)) == (50, 2)
    assert compare(live, [], examples=0).finish().examples == []


def test_fields_that_differ() -> None:
    assert dict(differing({"a": 1, "b": None}, {"a": 1})) == {}, "a missing field is a null one"
    assert dict(differing({"a": 1}, {"a": True})) == {"a": (1, True)}
    assert dict(differing({"a": {"b": [1]}}, {"a": {"b": [1, 2]}})) == {"a.b[1]": (None, 2)}


def test_events_of_both_modes_and_what_is_no_event() -> None:
    binary = [
        ("ce_id", b"x"),
        ("ce_sequence", b"00000000000000FF-0000001"),
        ("content-type", b"application/avro"),
    ]
    assert said_of(TOPIC, b"1", b"\0", binary) == Said("x", "1", 255, b"\0")
    structured = b'{"id":"x","sequence":"00000000000000FF-0000001","data":{}}'
    headers = [("content-type", b"application/cloudevents+json; charset=UTF-8")]
    assert said_of(TOPIC, b"1", structured, headers) == Said("x", "1", 255, structured)
    for value, said_headers in ((b"x", []), (b"no json", headers), (b"{}", headers)):
        with pytest.raises(GenerationError, match=TOPIC):
            said_of(TOPIC, b"1", value, said_headers)
