"""On a real broker: each event once, through restarts and from one version to the next."""

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from odd_headers import Name
from publishing import Publisher

from tidings_client import ClientError, Events, Received, SqliteSeen, event
from tidings_client.generate import main as generate

Reading = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Line:
    product_id: int
    quantity: int


def versions(name: str) -> tuple[type[Any], type[Any]]:
    """A reader's classes for version 1 and 2 of a test's event."""

    @event(f"{name}.order-placed", version=1)
    @dataclass(frozen=True)
    class First:
        order_id: int

    @event(f"{name}.order-placed", version=2)
    @dataclass(frozen=True)
    class Second:
        order_id: int
        lines: list[Line]
        required_on: date | None = None

    return First, Second


def take(count: int, **settings: Any) -> list[Received[Any]]:
    """So many events, all handled; the next one is read and not handled."""
    found: list[Received[Any]] = []
    with Events(**settings, idle_seconds=1) as events:
        for received in events:
            if len(found) == count:
                break
            found.append(received)
    return found


def rest(**settings: Any) -> list[Received[Any]]:
    """All that there is."""
    with Events(**settings, idle_seconds=1) as events:
        return list(events)


def test_typed_events_each_once_through_restarts(
    publisher: Publisher, reading: Reading, unique_name: str, tmp_path: Path
) -> None:
    _, second = versions(unique_name)
    publisher.create(2)
    publisher.publish([1, 2, 3])
    publisher.publish([99], commit=False)
    publisher.publish([4, 5])
    seen = tmp_path / "seen.db"
    settings = reading(events=[second])
    first = take(3, **settings, seen=SqliteSeen(seen))
    assert len(first) == 3
    one = next(received for received in first if received.subject == first[0].subject)
    assert one.data == second(order_id=int(one.subject), lines=[Line(5, int(one.subject))])
    assert one.type == publisher.topics[2]
    assert (one.time.isoformat(), one.sunset) == ("2026-01-01T00:00:00+00:00", None)

    # A handler that fails: its event comes again.
    failed: list[str] = []

    def fail() -> None:
        with Events(**settings, seen=SqliteSeen(seen), idle_seconds=60) as events:
            for received in events:
                failed.append(received.key)
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    # Offsets that were lost, or a group that was set back: what was handled is skipped all the same.
    publisher.publish([0])
    again = rest(**settings | {"group": f"{unique_name}-reset"}, seen=SqliteSeen(seen))
    assert failed[0] in [received.key for received in again]
    assert sorted(r.data.order_id for r in first + again) == [0, 1, 2, 3, 4, 5]
    # Without a memory they would have come once more.
    everything = rest(**settings | {"group": f"{unique_name}-other"})
    assert sorted(r.data.order_id for r in everything) == [0, 1, 2, 3, 4, 5]


def test_headers_whose_names_are_not_utf_8_lose_no_event(
    publisher: Publisher, reading: Reading, unique_name: str, kafka_bootstrap: str
) -> None:
    """Whatever was put beside the translator's own headers on the way, by a proxy or a mirror."""
    first, second = versions(unique_name)
    publisher.create(1)
    publisher.publish([1])
    (given,) = rest(**reading(events=[first]))
    for _ in range(20):  # CPython specialises a call after a few
        publisher.publish_beside(1, 2, [(Name(b"\xff\xfe"), b"odd"), (Name(b"\xfe"), None)], kafka_bootstrap)
    found = rest(**reading(events=[first]))
    assert [received.data for received in found] == [first(order_id=2)] * 20
    assert {received.type for received in found} == {given.type}
    publisher.create(2)
    publisher.publish_beside(2, 3, [(Name(b"\xff\xfe"), b"odd"), (Name(b"\xfe"), None)], kafka_bootstrap)
    with_newer = rest(**reading(events=[second], group=f"{unique_name}-new"))
    assert [received.data.order_id for received in with_newer] == [3]


def test_moving_to_the_next_version_leaves_no_gap_and_no_repeat(
    publisher: Publisher, reading: Reading, unique_name: str, tmp_path: Path
) -> None:
    first, second = versions(unique_name)
    publisher.create(1)
    publisher.publish([1, 2, 3])
    seen = tmp_path / "seen.db"
    old = take(3, **reading(events=[second, first]), seen=SqliteSeen(seen))
    assert {type(received.data) for received in old} == {first}, "version 2 is not there yet"

    publisher.create(2)
    publisher.publish([4, 5, 6, 7])
    old += take(2, **reading(events=[first]), seen=SqliteSeen(seen))
    publisher.publish([8])
    publisher.publish([0])
    with pytest.raises(ClientError, match=r"has read .*\.v1: to go on with .*\.v2 without repeats"):
        rest(**reading(events=[first, second]))
    new = rest(**reading(events=[first, second]), seen=SqliteSeen(seen))
    assert {type(received.data) for received in new} == {second}
    assert sorted(r.data.order_id for r in old + new) == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert not {r.id for r in old} & {r.id for r in new}


def test_classes_from_the_registry(
    publisher: Publisher, registry_url: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    publisher.create(2)
    assert generate(["generate", publisher.topics[2], "--registry", registry_url]) == 0
    text = capsys.readouterr().out
    assert f'@event("{publisher.event}", version=2)' in text
    assert "    lines: list[LineV2]\n    required_on: date | None = None\n" in text
    (tmp_path / "generated_events.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    import generated_events

    assert generated_events.OrderPlacedV2(order_id=1, customer="Ann", lines=[]).required_on is None
    sys.modules.pop("generated_events")
    assert generate(["generate", "no.such.v1", "--registry", registry_url]) == 1
    assert "no.such.v1-value" in capsys.readouterr().err
    assert generate(["generate", "x.v1", "--registry", "http://u:sesame@127.0.0.1:9"]) == 1
    assert "sesame" not in (told := capsys.readouterr().err)
    assert "http://127.0.0.1:9 is not reachable" in told


def test_a_topic_that_is_not_there_is_told_with_what_is(
    publisher: Publisher, reading: Reading, unique_name: str
) -> None:
    _, second = versions(unique_name)
    publisher.create(1)
    with pytest.raises(ClientError, match=rf"no topic {unique_name}.order-placed.v2; .* published: .*\.v1$"):
        Events(**reading(events=[second]))
    with pytest.raises(ClientError, match="does not say which event it reads"):
        Events(**reading(events=[Line]))


def test_a_new_group_is_told_what_a_younger_version_lacks(
    publisher: Publisher,
    reading: Reading,
    unique_name: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Whatever a test before has made of the root's level, or of loggers that were there.
    caplog.set_level(logging.WARNING, logger="tidings_client")
    monkeypatch.setattr(logging.getLogger("tidings_client"), "disabled", False)
    first, second = versions(unique_name)
    publisher.create(1)
    publisher.publish([1, 2])
    publisher.create(2)
    publisher.publish([3])
    settings = reading(events=[second])
    assert [received.data.order_id for received in rest(**settings)] == [3]
    (told,) = caplog.records
    assert told.name == "tidings_client"
    said = told.getMessage()
    assert f"is new: {publisher.topics[2]} begins with 2026-01-01T00:00:00" in said
    assert f"read {publisher.topics[1]} alone first" in said
    # It is new once; and of a version that is the first nothing is said.
    caplog.clear()
    assert rest(**settings) == []
    assert len(rest(**(settings | {"events": [first], "group": f"{unique_name}-other"}))) == 3
    assert caplog.records == []
