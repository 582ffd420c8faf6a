"""What a cluster does to its clients: it is busy, away, cut off, too small, locked; documents are there once, in order."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from search_parts import TOLERANT, Search
from search_proxy import Proxy, issued

from tidings_connect.errors import WorkerConfigError
from tidings_sinks.errors import TargetError
from tidings_stack.opensearch import OpenSearchServer
from tidings_stack.waiting import wait_for


@pytest.fixture
def proxy(opensearch: OpenSearchServer, search: Search) -> Iterator[Proxy]:
    with Proxy(opensearch.port) as proxy:
        search.config["connection.url"] = proxy.url
        yield proxy


def failure(search: Search) -> BaseException:
    wait_for("a failure", lambda: search.worker.error is not None)
    assert search.worker.error is not None
    return search.worker.error


def test_a_server_that_is_busy_is_asked_again(search: Search, proxy: Proxy) -> None:
    proxy.busy = 3
    search.run()
    search.put("a", {"n": 1})
    search.wait()
    assert proxy.requests == [1, 1, 1, 1]
    assert search.documents() == {"a": {"n": 1}}


def test_a_server_that_stays_busy_lets_the_partitions_rest(search: Search, proxy: Proxy) -> None:
    proxy.busy = 5
    search.run(max_retries="0")
    search.put("a", {"n": 1})
    search.wait()
    assert search.worker.error is None
    assert search.documents() == {"a": {"n": 1}}


def test_of_a_request_only_what_was_refused_is_sent_again(search: Search, proxy: Proxy) -> None:
    """The older record of a key comes after the newer one then, and counts for nothing."""
    search.put("a", {"n": 1})
    search.put("a", {"n": 2})
    search.put("b", {"n": 1})
    proxy.some_busy = 1
    search.run(behavior_on_version_conflict="fail")
    search.wait()
    assert proxy.requests == [3, 1]
    assert search.documents() == {"a": {"n": 2}, "b": {"n": 1}}


def test_what_is_done_is_not_sent_again_when_the_batch_comes_again(search: Search, proxy: Proxy) -> None:
    """Also where a document has no id, so that sending it twice would make two."""
    for number in range(3):
        search.put(None, {"n": number})
    proxy.some_busy = 1
    search.run(max_retries="0", key_ignore="true", key_ignore_id_strategy="none")
    search.wait()
    assert proxy.requests == [3, 1]
    assert sorted(document["n"] for document in search.documents().values()) == [0, 1, 2]


def test_an_answer_that_is_lost_makes_no_conflict(search: Search, proxy: Proxy) -> None:
    search.config["behavior.on.null.values"] = "delete"
    search.put("a", {"n": 1})
    search.put("b", {"n": 1})
    search.put("a", {"n": 2})
    search.put("b", None)
    proxy.cut = 1
    search.run(behavior_on_version_conflict="fail")
    search.wait()
    assert len(proxy.requests) == 2
    assert search.documents() == {"a": {"n": 2}}


def test_a_request_that_is_too_large_is_parted(search: Search, proxy: Proxy) -> None:
    proxy.most_bytes = 2000
    for number in range(5):
        search.put(str(number), {"text": "x" * 600})
    search.put("large", {"text": "x" * 3000})
    search.config |= TOLERANT
    search.run()
    search.wait()
    assert sorted(search.documents()) == ["0", "1", "2", "3", "4"]
    assert len(search.letters()) == 1


def test_requests_have_as_many_records_as_the_options_say(search: Search, proxy: Proxy) -> None:
    for number in range(5):
        search.put(str(number), {"n": number})
    search.run(batch_size="2")
    search.wait()
    assert proxy.requests == [2, 2, 1]


def test_of_several_servers_one_that_is_away_is_passed_over(search: Search, proxy: Proxy) -> None:
    search.run(connection_url=f"http://127.0.0.1:9,{proxy.url}")
    search.put("a", {"n": 1})
    search.wait()
    assert search.documents() == {"a": {"n": 1}}


def test_an_index_that_takes_no_writes_is_waited_for(search: Search) -> None:
    search.ask("PUT", f"/{search.topic}", {"settings": {"index.blocks.write": True}})
    search.run(max_retries="1")
    search.put("a", {"n": 1})
    wait_for(
        "the first attempt", lambda: search.worker.kafka.inputs.records and search.worker.state == "RUNNING"
    )
    search.ask("PUT", f"/{search.topic}/_settings", {"index.blocks.write": False})
    search.wait()
    assert search.documents() == {"a": {"n": 1}}


def test_a_login_and_an_authority(opensearch: OpenSearchServer, search: Search, tmp_path: Path) -> None:
    key, trusted = issued(tmp_path)
    with Proxy(opensearch.port, login=("me", "secret"), key=key) as proxy:
        search.config |= {
            "connection.url": proxy.url,
            "connection.username": "me",
            "connection.password": "secret",
            "connection.ssl.truststore.location": str(trusted),
            "connection.ssl.truststore.type": "PEM",
        }
        search.run()
        search.put("a", {"n": 1})
        search.wait()
        search.run(connection_password="wrong-one")
        error = failure(search)
        assert isinstance(error, TargetError)
        assert "refuses the login" in str(error)
        assert "wrong-one" not in f"{error} {error.hint}"
        search.run(connection_ssl_truststore_location="", connection_trust_all_certificates="true")
        search.put("b", {"n": 1})
        search.wait()
        search.run(connection_ssl_truststore_location=str(tmp_path / "none"))
        error = failure(search)
        assert isinstance(error, WorkerConfigError)
        assert "connection.ssl.truststore.location" in str(error)
    search.config["connection.url"] = opensearch.url
    assert sorted(search.documents()) == ["a", "b"]


def test_a_server_that_is_killed_keeps_what_was_committed(
    opensearch: OpenSearchServer, search: Search
) -> None:
    """Last, since others wait for the server meanwhile."""
    search.run()
    for number in range(20):
        search.put(str(number), {"n": number})
    search.wait()
    opensearch.kill()
    search.put("late", {"n": 0})
    search.put("0", {"n": 100})
    wait_for("a failed attempt", lambda: search.worker.state == "RUNNING" and search.worker.error is None)
    opensearch.start()
    search.wait()
    found = search.documents()
    assert len(found) == 21
    assert (found["0"], found["19"]) == ({"n": 100}, {"n": 19})
