"""What goes on the topic: CloudEvents headers, keys, the wire format."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_domain import Domain
from tidings_domain.evaluation.cloudevents import NAMESPACE, event_id, former_id, place_of, rule_name
from tidings_domain.evaluation.encoding import EventEncoder
from tidings_domain.language.events import contract_of
from tidings_domain.testing import Rehearsal, insert
from tidings_envelope.wire import split

Load = Callable[..., Domain]


class FakeRegistry:
    """Gives ids from 300 on and counts requests."""

    def __init__(self) -> None:
        self.subjects: dict[str, Any] = {}
        self.levels: dict[str | None, str] = {}
        self.requests = 0

    def register(self, subject: str, schema: dict[str, Any] | str) -> int:
        self.requests += 1
        self.subjects[subject] = schema
        return 299 + len(self.subjects)

    def set_compatibility(self, subject: str | None, level: str) -> None:
        self.levels[subject] = level


@pytest.fixture
def boxes(box_domain: Load) -> Rehearsal:
    return Rehearsal(box_domain())


def test_headers_are_cloudevents_in_binary_mode(boxes: Rehearsal) -> None:
    told = boxes.when(insert("public.boxes", id=17, state="packed", note=None, owner_id=None))
    newest = told.published[0]
    assert dict(newest.headers) == {
        "ce_specversion": b"1.0",
        "ce_type": b"depot.box-packed.v2",
        "ce_source": b"/tidings/depot/box",
        "ce_dataschema": b"urn:tidings:schema:depot:box-packed:v2",
        "content-type": b"application/avro",
        "ce_id": newest.event_id.encode(),
        "ce_time": b"2026-01-01T00:00:01.000000Z",
        "ce_subject": b"17",
        "ce_sequence": b"0000000000000100-0000000",
    }
    assert newest.key == b"17"
    assert len(newest.headers) == len(dict(newest.headers))


@given(st.text(max_size=20), st.integers(0, 2**64 - 1), st.integers(0, 10**7))
def test_an_event_id_is_what_uuid5_gives(aggregate: str, lsn: int, ordinal: int) -> None:
    made = event_id("a.b.v1", aggregate, place_of(lsn), rule_name("a/b"), ordinal)
    assert made == str(uuid5(NAMESPACE, f"a.b.v1/{lsn:X}/a%2Fb/{ordinal}/{aggregate}"))
    assert UUID(made).version == 5
    former = former_id("a.b.v1", aggregate, f"{lsn:016X}-{ordinal:07}")
    assert former == str(uuid5(NAMESPACE, f"a.b.v1/{lsn:X}/{ordinal}/{aggregate}"))


def test_the_namespace_never_changes() -> None:
    assert str(NAMESPACE) == "62b5d885-6c69-5038-80c8-3d2d7ca2eb8d"


def test_values_are_framed_with_the_registrys_ids(boxes: Rehearsal) -> None:
    registry = FakeRegistry()
    encoder = EventEncoder(registry)
    told = boxes.when(insert("public.boxes", id=17, state="packed", note=None, owner_id=None))
    assert [split(encoder.encode(one)) for one in told.published * 2] == [
        (300, told.published[0].body),
        (301, told.published[1].body),
    ] * 2
    assert registry.requests == 2
    assert list(registry.subjects) == ["depot.box-packed.v2-value", "depot.box-packed.v1-value"]
    assert set(registry.levels.values()) == {"FULL_TRANSITIVE"}
    assert registry.subjects["depot.box-packed.v1-value"] == contract_of(type(told.published[1].event))


def test_prepare_registers_every_live_version(boxes: Rehearsal) -> None:
    registry = FakeRegistry()
    EventEncoder(registry).prepare(boxes.domain.event_classes())
    assert sorted(registry.subjects) == [
        "depot.box-gone.v1-value",
        "depot.box-packed.v1-value",
        "depot.box-packed.v2-value",
        "depot.item-added.v1-value",
    ]
