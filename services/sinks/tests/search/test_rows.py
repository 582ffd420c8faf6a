"""Which document a record becomes: versions and replays, deletes, upserts, envelopes, values that were not sent, events."""

from collections.abc import Mapping
from typing import Any

import pytest
from search_parts import ON_BOTH, TOLERANT, Search, bulk
from structlog.testing import capture_logs

from tidings_connect.errors import OptionError, RecordError
from tidings_sinks.errors import RowError, TargetError
from tidings_sinks.search.settings import index_name

TOLERANT_UNDERSCORED = {name.replace(".", "_"): text for name, text in TOLERANT.items()}
PLACEHOLDER = "__debezium_unavailable_value"


def envelope(op: str, after: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"before": None, "after": after, "op": op, "source": {"table": "orders", "lsn": 7}}


def failure(search: Search) -> BaseException:
    with pytest.raises(AssertionError, match="the task failed"):
        search.worker.wait_for(lambda: False, "a failure")
    assert search.worker.error is not None
    return search.worker.error


def replay(search: Search) -> None:
    """Have everything come again."""
    search.worker.stop()
    search.worker.reset_offsets()
    search.worker.resume()
    search.wait()


@ON_BOTH
def test_the_last_record_of_a_key_counts_however_often_records_come(search: Search) -> None:
    search.config |= {"behavior.on.null.values": "delete", "consumer.override.max.poll.records": "1"}
    search.run()
    for number in range(3):
        search.put("a", {"n": number})
    search.put("b", {"n": 1})
    search.put("b", None)
    search.put("c", {"n": 1})
    search.put("c", None)
    search.put("c", {"n": 2})
    search.wait()
    wanted = {"a": {"n": 2}, "c": {"n": 2}}
    assert search.documents() == wanted
    assert search.versions() == {"a": 2, "c": 7}
    with capture_logs() as logs:
        replay(search)
    assert search.documents() == wanted
    assert search.versions() == {"a": 2, "c": 7}
    assert sum("newer than records" in line["event"] for line in logs) == 1
    settings = search.ask("GET", f"/{search.topic}/_settings")[search.topic]["settings"]["index"]
    assert settings["gc_deletes"] == "10m", "or a late record would bring back what was deleted"


@ON_BOTH
def test_a_late_record_of_another_task_changes_nothing(search: Search) -> None:
    """What a task that has lost its partitions sends late, after a delete, and after a newer document."""
    search.config["behavior.on.null.values"] = "delete"
    search.run()
    search.put("a", {"n": 0})
    search.put("b", {"n": 0})
    search.put("a", None)
    search.put("b", {"n": 1})
    search.wait()
    late = [{"index": {"_index": search.topic, "_id": key, "version": version, "version_type": "external"}} for key, version in (("a", 0), ("b", 1))]  # fmt: skip
    answers = bulk(search.config["connection.url"], [late[0], {"n": 9}, late[1], {"n": 9}])
    assert [answer["status"] for answer in answers] == [409, 409]
    assert search.documents() == {"b": {"n": 1}}


@pytest.mark.parametrize("behaviour", ["report", "fail", "warn"])
def test_what_is_done_about_an_older_record(search: Search, behaviour: str) -> None:
    search.config["consumer.override.max.poll.records"] = (
        "1"  # in one batch, the first is superseded, and no older one
    )
    search.run(behavior_on_version_conflict=behaviour, **TOLERANT_UNDERSCORED)
    search.put("a", {"n": 0})
    search.put("a", {"n": 1})
    search.wait()
    search.worker.stop()
    search.worker.reset_offsets()
    search.worker.resume()
    if behaviour == "fail":
        error = failure(search)
        assert isinstance(error, RowError)
        assert "partition 0, offset 0" in str(error)
        return
    search.wait()
    assert len(search.letters()) == (1 if behaviour == "report" else 0), "offset 1 is what is there"


@ON_BOTH
def test_fields_are_put_over_those_of_the_document(search: Search) -> None:
    """Upserts have versions too: in order, and not done twice."""
    search.config["behavior.on.null.values"] = "delete"
    search.run(index_write_method="upsert")
    search.put("a", {"n": 1, "inner": {"x": 1, "y": 1}})
    search.put("a", {"more": "text", "inner": {"y": 2}})
    search.put("a", {"n": 3})
    search.put("b", {"n": 1, "old": 1})
    search.put("b", None)
    search.put("b", {"n": 2})
    search.wait()
    wanted = {"a": {"n": 3, "more": "text", "inner": {"x": 1, "y": 2}}, "b": {"n": 2}}
    assert search.documents() == wanted
    replay(search)
    assert search.documents() == wanted
    search.put("a", {"n": 4})
    search.wait()
    assert search.documents()["a"] == wanted["a"] | {"n": 4}


def test_envelopes_become_their_rows(search: Search) -> None:
    search.config["behavior.on.null.values"] = "delete"
    search.run(errors_tolerance="all", errors_deadletterqueue_topic_name="letters")
    search.put({"id": 1}, envelope("r", {"id": 1, "city": "Oslo"}))
    search.put({"id": 2}, envelope("c", {"id": 2, "city": "Bonn"}))
    search.put({"id": 1}, envelope("u", {"id": 1, "city": "Rome"}))
    search.put({"id": 2}, envelope("d", None))
    search.put({"id": 2}, None)
    search.put({"order": 3, "line": "x"}, envelope("c", {"order": 3, "line": "x"}))
    search.put({"id": 1}, envelope("t", None))
    search.put({"id": 1}, {**envelope("m", None), "message": {}})
    search.wait()
    assert search.documents() == {"1": {"id": 1, "city": "Rome"}, '[3,"x"]': {"order": 3, "line": "x"}}
    assert len(search.letters()) == 1, "an index is not truncated, and that is said"


def test_an_envelope_can_be_the_document(search: Search) -> None:
    search.run(tidings_envelopes="false")
    search.put("1", envelope("c", {"id": 1}))
    search.wait()
    assert search.documents()["1"]["after"] == {"id": 1}


@ON_BOTH
def test_values_that_were_not_sent_stay_as_they_are(search: Search) -> None:
    search.run()
    search.put("1", envelope("c", {"id": 1, "n": 1, "text": "long", "tags": ["a"], "price": 1.0}))
    search.put(
        "1", envelope("u", {"id": 1, "n": 2, "text": PLACEHOLDER, "tags": [PLACEHOLDER], "price": 2.0})
    )
    search.put("2", envelope("u", {"id": 2, "n": 2, "text": PLACEHOLDER}))
    search.wait()
    wanted = {"1": {"id": 1, "n": 2, "text": "long", "tags": ["a"], "price": 2.0}, "2": {"id": 2, "n": 2}}
    assert search.documents() == wanted
    replay(search)
    assert search.documents() == wanted
    search.put("1", envelope("u", {"id": 1, "n": 3, "text": PLACEHOLDER, "tags": [], "price": 2.0}))
    search.wait()
    assert search.documents()["1"] == {"id": 1, "n": 3, "text": "long", "tags": [], "price": 2.0}


@ON_BOTH
def test_a_bad_document_is_a_letter_and_the_others_are_written(search: Search) -> None:
    search.ask("PUT", f"/{search.topic}", {"mappings": {"properties": {"n": {"type": "integer"}}}})
    letters = TOLERANT_UNDERSCORED | {"errors_deadletterqueue_context_headers_enable": "true"}
    search.run(**letters)
    search.put("a", {"n": 1})
    search.put("b", {"n": "secret"})
    search.put("", {"n": 1})
    search.put("x" * 513, {"n": 1})
    search.put(None, {"n": 1})
    search.put("t", "text")
    search.put("c", {"n": 3})
    search.wait()
    assert search.documents() == {"a": {"n": 1}, "c": {"n": 3}}
    assert len(search.letters()) == 5
    _, _, headers = search.worker.kafka.topics["letters"][-1]
    message = dict(headers or [])["__connect.errors.exception.message"].decode()
    assert "field n of type integer" in message
    assert "secret" not in message


@pytest.mark.parametrize(
    ("properties", "value", "field"),
    [
        ({"a": {"type": "keyword"}}, {"a": {"secret": 1}}, "a"),
        ({"a": {"properties": {}}}, {"a": "secret"}, "a"),
        ({}, {"a": {"b": [1, 2.5]}}, "a.b"),
    ],
    ids=["an object for a value", "a value for an object", "two kinds of numbers"],
)
def test_a_refusal_names_the_field_and_no_value(
    search: Search, properties: dict[str, Any], value: Any, field: str
) -> None:
    search.ask("PUT", f"/{search.topic}", {"mappings": {"properties": properties}})
    search.run()
    search.put("1", value)
    message = str(failure(search))
    assert f"field {field}" in message
    assert "secret" not in message


@pytest.mark.parametrize(
    ("options", "error"),
    [({}, RecordError), ({"behavior_on_malformed_documents": "fail", "errors_tolerance": "all"}, RowError)],
    ids=["by default", "fail"],
)
def test_a_bad_document_ends_the_task(
    search: Search, options: dict[str, str], error: type[Exception]
) -> None:
    search.ask("PUT", f"/{search.topic}", {"mappings": {"properties": {"n": {"type": "integer"}}}})
    search.run(**options)
    search.put("b", {"n": "secret"})
    found = failure(search)
    assert isinstance(found, error)
    assert "partition 0, offset 0" in str(found)
    assert "secret" not in str(found)


def test_bad_records_can_be_left_out(search: Search) -> None:
    search.ask("PUT", f"/{search.topic}", {"mappings": {"properties": {"n": {"type": "integer"}}}})
    search.run(behavior_on_malformed_documents="ignore", drop_invalid_message="true")
    search.put("b", {"n": "text"})
    search.put(None, {"n": 1})
    search.put("c", {"n": 1})
    search.wait()
    assert list(search.documents()) == ["c"]


def test_null_values_are_nothing_or_errors(search: Search) -> None:
    search.run()
    search.put("a", {"n": 1})
    search.put("a", None)
    search.wait()
    assert list(search.documents()) == ["a"]
    search.run(behavior_on_null_values="fail")
    search.put("a", None)
    assert isinstance(failure(search), RecordError)


def test_routing_by_a_value(search: Search) -> None:
    search.ask("PUT", f"/{search.topic}", {"settings": {"number_of_shards": 3}})
    search.run(routing_type="value", routing_type_record_value_path="/customer/id", **TOLERANT_UNDERSCORED)
    search.put("a", {"customer": {"id": 7}})
    search.put("b", {"customer": {}})
    search.wait()
    (hit,) = search.hits()
    assert (hit["_id"], hit["_routing"]) == ("a", "7")
    assert len(search.letters()) == 1


def send_event(search: Search, number: int, event: str, **more: str) -> None:
    attributes = {"ce_specversion": "1.0", "ce_id": event, "ce_type": "shop.order-placed.v1", **more}
    headers = [(name, text.encode()) for name, text in attributes.items()]
    search.put(f"order-{number}", {"order_id": number, "total": "12.30"}, headers=headers)


def test_events_by_their_id_and_by_their_subject(search: Search) -> None:
    search.run(tidings_id_header="ce_id", tidings_headers="ce_type,ce_id")
    with capture_logs() as logs:
        for event in ("a", "b", "a"):
            send_event(search, 1, event, ce_deprecated="true", ce_deprecationsunset="2027-05-01T00:00:00Z")
        search.wait()
    document = {"order_id": 1, "total": "12.30", "ce_type": "shop.order-placed.v1"}
    assert search.documents() == {"a": document | {"ce_id": "a"}, "b": document | {"ce_id": "b"}}
    told = [line for line in logs if "deprecated" in line["event"]]
    assert len(told) == 1
    assert "2027-05-01" in str(told[0])
    search.ask("DELETE", f"/{search.topic}")
    search.worker.stop()
    search.worker.reset_offsets()
    search.run(tidings_id_header="")
    search.wait()
    assert search.documents() == {"order-1": {"order_id": 1, "total": "12.30"}}


def test_data_streams(search: Search) -> None:
    """A stream is created with its template, has each record once, and maps what comes later also in its next index."""
    search.config |= {"data.stream.enabled": "true", "data.stream.prefix": "logs"}
    search.config["behavior.on.version.conflict"] = "fail"  # a record that comes again is none
    stream = f"logs-{search.topic}"
    search.run(key_ignore="true", **TOLERANT_UNDERSCORED)
    search.put("k", {"n": 1})
    search.put("k", {"n": 2, "@timestamp": "2026-01-02T03:04:05Z"})
    search.put("k", {"n": 3, "@timestamp": "never"})
    search.wait()
    assert [hit["_source"]["n"] for hit in search.hits(stream)] == [1, 2]
    assert len(search.letters()) == 1
    replay(search)
    assert [hit["_source"]["n"] for hit in search.hits(stream)] == [1, 2]
    typed = {
        "type": "struct",
        "optional": False,
        "fields": [{"field": "day", "type": "int32", "name": "io.debezium.time.Date"}],
    }
    search.run(key_ignore="true", value_converter_schemas_enable="true", **TOLERANT_UNDERSCORED)
    search.put("k", {"schema": typed, "payload": {"day": 20455}})
    search.wait()
    search.ask("POST", f"/{stream}/_rollover")
    for found in search.ask("GET", f"/{stream}/_mapping").values():
        assert found["mappings"]["properties"]["day"]["type"] == "date"
    search.ask("DELETE", f"/_data_stream/{stream}")
    search.ask("DELETE", f"/_index_template/{stream}-index-template")


def test_targets_that_are_there(search: Search) -> None:
    real, alias = f"{search.topic}-2026", f"{search.topic}-now"
    search.ask("PUT", f"/{real}", {"aliases": {alias: {}}})
    search.config |= {"existing.resource.type": "index_alias"}
    search.run(topic_to_existing_resource_mapping=f"{search.topic}:{alias}")
    search.put("a", {"n": 1})
    search.wait()
    assert list(search.documents(real)) == ["a"]
    search.run(topic_to_existing_resource_mapping=f"{search.topic}:{alias}x")
    search.put("a", {"n": 1})
    error = failure(search)
    assert isinstance(error, TargetError)
    assert f"{alias}x" in str(error)


@pytest.mark.parametrize(
    "wrong",
    [
        {"connection.url": "http://user:secret@host:9200"},
        {"connection.url": "host:9200"},
        {"aws.region": "eu-north-1"},
        {"connection.username": "me"},
        {"index.write.method": "upsert", "data.stream.enabled": "true"},
        {"behavior.on.null.values": "delete", "data.stream.enabled": "true"},
        {"routing.type.record.value.path": "", "routing.type": "value"},
        {"topic.to.existing.resource.mapping": "a:b:c", "existing.resource.type": "index"},
        {"key.ignore.id.strategy": "none", "key.ignore": "true", "index.write.method": "upsert"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_does_not_go_together_is_refused_by_name(search: Search, wrong: dict[str, str]) -> None:
    search.config |= wrong
    with pytest.raises(OptionError) as refused:
        search.run()
    assert next(iter(wrong)) in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("topic", "index"),
    [
        ("Shop.Public.Orders", "shop.public.orders"),
        ("_a:b c", "a_b_c"),
        ("..", "dotdot"),
        ("x" * 300, "x" * 255),
        ("--", ""),
    ],
    ids=["case", "odd", "dots", "long", "nothing"],
)
def test_names_of_indexes(topic: str, index: str) -> None:
    assert index_name(topic) == index
