"""Two generations' events compared: pairs by id, by place, field by field, in any order of arrival."""

import json
import random
from typing import Any

import msgspec
import pytest

from tidings_domain.evaluation.cloudevents import former_id
from tidings_translator.base.errors import GenerationError
from tidings_translator.generations.corrections import Corrections, correction_id, summary, superseded
from tidings_translator.generations.diff import Comparison, Said, as_json, differing, report, said_of

TOPIC = "shop.order-placed.v1"


def said(number: int, lsn: int = 10, key: str = "1", **payload: Any) -> Said:
    return Said(f"id{number}", key, lsn, json.dumps(payload).encode())


def compare(
    live: list[Said],
    shadow: list[Said],
    *,
    upto: int = 100,
    examples: int = 3,
    corrections: Corrections | None = None,
) -> Comparison:
    comparison = Comparison(
        TOPIC,
        json.loads,
        upto=upto,
        examples=examples,
        superseded=superseded(live),
        notify=corrections.note if corrections else None,
    )
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


def test_events_from_before_rules_were_part_of_ids_are_the_same_facts() -> None:
    """Nothing waits for the end, and nothing would be corrected, but what was really told otherwise."""
    live = [
        Said(former_id(TOPIC, "1", f"0A-{number}"), "1", 10, json.dumps({"a": number}).encode())
        for number in range(4)
    ]
    shadow = [
        msgspec.structs.replace(one, id=f"new{number}", former=one.id) for number, one in enumerate(live)
    ]
    shadow[2] = msgspec.structs.replace(shadow[2], value=b'{"a": 7}')
    for seed in range(5):
        corrections = Corrections()
        comparison = compare(live[seed:] + live[:seed], shadow, corrections=corrections)
        assert not [*comparison._waiting["live"].rest(), *comparison._waiting["shadow"].rest()]
        found = comparison.finish()
        assert (found.same, found.changed, found.fields) == (3, 1, {"a": 1})
        assert corrections._corrects == {"new2": live[2].id}


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
    former = former_id(TOPIC, "1", "00000000000000FF-0000001")
    assert said_of(TOPIC, b"1", b"\0", binary) == Said("x", "1", 255, b"\0", former=former)
    structured = b'{"id":"x","sequence":"00000000000000FF-0000001","data":{}}'
    headers = [("content-type", b"application/cloudevents+json; charset=UTF-8")]
    assert said_of(TOPIC, b"1", structured, headers) == Said("x", "1", 255, structured, former=former)
    for value, said_headers in ((b"x", []), (b"no json", headers), (b"{}", headers)):
        with pytest.raises(GenerationError, match=TOPIC):
            said_of(TOPIC, b"1", value, said_headers)


BINARY = [("ce_sequence", b"000000000000000A-0000001"), ("content-type", b"application/avro")]


def as_record(said: Said) -> tuple[bytes, bytes, list[tuple[str, bytes]]]:
    return said.key.encode(), said.value, [*BINARY, ("ce_id", said.id.encode())]


@pytest.mark.parametrize("structured", [False, True])
def test_corrective_events_make_the_difference_up(structured: bool) -> None:
    """What is told anew and for the first time, under which ids; nothing of it twice; a later generation corrects it again."""

    def correct(generation: str, live: list[Said], shadow: list[Said]) -> tuple[list[Said], Corrections]:
        corrections = Corrections()
        compare(live, shadow, corrections=corrections).finish()
        events = []
        for one in shadow:
            record = as_record(one)
            if structured:
                data = json.loads(one.value)
                document = {"id": one.id, "sequence": "000000000000000A-0000001", "data": data}
                record = (
                    one.key.encode(),
                    json.dumps(document).encode(),
                    [("content-type", b"application/cloudevents+json")],
                )
            output = corrections.event(generation, TOPIC, record, one)
            if output is not None:
                assert (output.topic, output.key) == (TOPIC, one.key.encode())
                told = said_of(TOPIC, output.key, output.value, output.headers)
                payload = json.loads(told.value)
                events.append(
                    msgspec.structs.replace(told, value=json.dumps(payload.get("data", payload)).encode())
                )
        return events, corrections

    live = [said(1, a=1), said(2, a=1), said(3, key="9", a=1), said(6, key="4", a=1)]
    shadow = [said(1, a=1), said(2, a=2), said(4, key="7", a=5), said(5, key="4", a=2)]
    events, corrections = correct("autumn", live, shadow)
    assert [(one.id, one.correction, one.corrects, json.loads(one.value)) for one in events] == [
        (correction_id("id2", "autumn"), "autumn", "id2", {"a": 2}),
        ("id4", "autumn", "", {"a": 5}),
        ("id5", "autumn", "id6", {"a": 2}),
    ]
    assert (corrections.changed, corrections.missing) == (2, 1)
    found = compare(live, shadow).finish()
    assert "told anew                      2\n" in summary([(found, corrections)])
    assert "cannot be taken back           1\n" in summary([(found, corrections)])

    for told in (live + events[:1], live + events):
        again, _ = correct("autumn", told, shadow)
        assert again == events[len(told) - len(live) :], "a run that was ended in its middle is repeated"
    found = compare(live + events, shadow).finish()
    assert (found.same, found.changed, found.only_live, found.only_shadow) == (4, 0, 1, 0)

    later, _ = correct("winter", live + events, [said(1, a=1), said(2, a=3), said(4, key="7", a=5)])
    assert [(one.id, one.corrects, json.loads(one.value)) for one in later] == [
        (correction_id("id2", "winter"), "id2", {"a": 3})
    ]
    assert compare(live + events + later, [said(2, a=3)]).finish().changed == 0
