"""`tidings sinks rebuild`: the example's search index, from zero beside the live one, switched over while somebody searches, killed at
each step that touches the index."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rebuild_parts import Events, Place, looking, status_of
from search_parts import Ask, asking

from tidings_sinks.search.settings import index_name
from tidings_stack.capture import CaptureWorkers
from tidings_stack.opensearch import OpenSearchServer
from tidings_stack.waiting import wait_for

NAME = "order-search"
SUFFIX = "__order_search_v"
_SEARCH = {"size": 0, "track_total_hits": True, "aggs": {"last": {"max": {"field": "order_id"}}}}


@pytest.fixture
def events(kafka_bootstrap: str, registry_url: str, unique_name: str) -> Events:
    events = Events(kafka_bootstrap, registry_url, f"{unique_name}.order-placed.v2")
    events.more(60)
    return events


@pytest.fixture
def place(
    opensearch: OpenSearchServer,
    kafka_bootstrap: str,
    registry_url: str,
    unique_name: str,
    tmp_path: Path,
    events: Events,
) -> Iterator[Place]:
    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        secrets = {"search-user": "nobody", "search-password": "nothing"}  # the server asks nobody
        place = Place(workers, tmp_path, unique_name, registry_url, secrets)
        place.create(NAME, "search/orders-placed.json", events.topic, connection_url=opensearch.url)
        yield place


def look(ask: Ask, name: str, refused: list[str] | None = None) -> int:
    """How many orders a search finds: a whole beginning of the events.

    Args:
        refused: takes note of a search that ended with an error because its index was removed beneath it, and is repeated
            until the server has made the change everywhere, which takes it some milliseconds.
    """
    found = ask("POST", f"/{name}/_search", _SEARCH, missing={})
    if not found and refused is not None:
        refused.append(name)
        again = lambda: ask("POST", f"/{name}/_search", _SEARCH, missing={})  # noqa: E731
        found = wait_for("a search after the switch", again, 5)
    assert found["_shards"]["failed"] == 0
    count = int(found["hits"]["total"]["value"])
    assert count == int(found["aggregations"]["last"]["value"] or 0)
    return count


def indexes(ask: Ask, name: str) -> dict[str, list[str]]:
    """The indexes of the test, with their aliases."""
    found = ask("GET", "/_alias")
    return {index: list(about["aliases"]) for index, about in found.items() if index.startswith(name)}


def test_an_index_is_rebuilt_killed_at_each_step_and_taken_back(
    place: Place, opensearch: OpenSearchServer, events: Events, capsys: pytest.CaptureFixture[str]
) -> None:
    ask, name = asking(opensearch.url), index_name(events.topic)
    hits = {"hits": {"total": {"value": 0}}}
    there = lambda: ask("POST", f"/{name}/_search", {}, missing=hits)["hits"]["total"]["value"] > 0  # noqa: E731
    wait_for("the first orders", there, 60)
    refused: list[str] = []
    with looking(lambda: look(ask, name, refused), events) as seen:
        # Given up while the first index is being copied: it takes writes again, and no copy is left.
        place.rebuild_until("rebuild.switching", NAME, "--keep")
        ask("PUT", f"/{name}/_settings", {"index.blocks.write": True})
        ask("PUT", f"/{name}/_clone/{name}{SUFFIX}1", {})
        assert place.rebuild(NAME, "--abort") == 0
        assert indexes(ask, name) == {name: []}
        events.more()
        wait_for("the live one to go on", lambda: look(ask, name) == events.last, 60)
        # The second beside the first, which becomes a copy with another name.
        for point in ("created", "caught_up", "stopped", "switched"):
            place.rebuild_until(f"rebuild.{point}", NAME, "--keep")
        assert place.rebuild(NAME, "--keep") == 0
        assert indexes(ask, name) == {f"{name}{SUFFIX}1": [], f"{name}{SUFFIX}2": [name]}
        events.more()
        first = f"{name}{SUFFIX}1"
        wait_for("the kept one to go on", lambda: look(ask, first) == events.last, 60)
        assert place.rebuild(NAME, "--undo") == 0
        assert indexes(ask, name) == {f"{name}{SUFFIX}1": [name], f"{name}{SUFFIX}2": []}
        # Forth again, and the first is removed.
        for point in ("switched", "forgotten", "dropped"):
            place.rebuild_until(f"rebuild.{point}", NAME)
        assert place.rebuild(NAME) == 0
        assert indexes(ask, name) == {f"{name}{SUFFIX}2": [name]}
        assert place.names() == {f"{NAME}-v2"}
        # A third, in place of a second that is not kept.
        assert place.rebuild(NAME, "--grace", "1") == 0
        assert indexes(ask, name) == {f"{name}{SUFFIX}3": [name]}
        (version,) = status_of(place, NAME, capsys)["versions"]
        assert (version["version"], version["live"], list(version["has"])) == (3, True, [name])
    assert len(seen) > 50
    print("REFUSED", len(refused))
    assert len(refused) <= 2  # at the first switch of each kind
