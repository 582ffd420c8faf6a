"""What is compared of events, and of a generation that begins with a replay."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tidings_domain.loading.domain import Domain
from tidings_envelope.position import lsn_to_text
from tidings_lakehouse.errors import ReplayError
from tidings_lakehouse.replay.generation import write_generation
from tidings_lakehouse.replay.run import Replayed, replayed
from tidings_translator.base.records import Output
from yard.written import Yard

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bytes_of(found: Replayed) -> set[tuple[Any, ...]]:
    """What is published of each event."""
    return {
        (
            row["topic"],
            row["id"].encode(),
            bytes(row["body"]),
            tuple((one["key"], bytes(one["value"])) for one in row["headers"]),
        )
        for row in found.events.collect()
    }


def published(outputs: list[Output]) -> set[tuple[Any, ...]]:
    return {(one.topic, one.key, one.value, tuple(one.headers or ())) for one in outputs}


def _differing(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, tuple[Any, Any]]:
    """What two have for the keys of which they do not have the same."""
    found = {key: (one.get(key), other.get(key)) for key in one.keys() | other.keys()}
    return {key: both for key, both in found.items() if both[0] != both[1]}


def check_generation(
    session: SparkSession,
    yard: Yard,
    domain: Domain,
    until: int,
    live: list[Output],
    registry: str,
    chance: random.Random,
    directory: Path,
) -> None:
    """A generation that begins with the replay up to a commit gives the live service's events, byte for byte and in the order of each
    aggregate, and begins with what a sequencer would have come to.

    Args:
        until: the position of the commit.
        live: what the live service publishes.
        directory: where the replay is written to.
    """
    with replayed(session, yard.source, domain, until=until, shares=3, with_state=True) as found:
        manifest = write_generation(session, yard.source, found, directory)
        with pytest.raises(ReplayError, match="exists"):
            write_generation(session, yard.source, found, directory)
        replayed_events = bytes_of(found)
    assert (manifest["until"], len(manifest["files"])) == (lsn_to_text(until), 3)
    begun, _ = yard.begun(directory, domain)
    progress, memory = yard.sequencer_before(begun, registry, chance, domain)
    for kept, wanted in (
        (msgspec.structs.asdict(begun.progress), msgspec.structs.asdict(progress)),
        (begun.memory, memory),
    ):
        differing = _differing(kept, wanted)
        assert not differing, differing
    events = yard.from_replay(directory, registry, chance, domain)
    assert len(events) == len(live)
    assert sorted(published(events)) == sorted(published(live))
    assert replayed_events <= published(events)
    for key in {(one.topic, one.key) for one in events}:
        both = [[one.value for one in some if (one.topic, one.key) == key] for some in (events, live)]
        assert both[0] == both[1], "the order of an aggregate"
