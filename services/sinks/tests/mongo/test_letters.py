"""What becomes of records that cannot be written."""

from typing import Any

import pytest
from mongo_parts import (
    BY_KEY,
    LETTERS,
    POSTGRES,
    UUID,
    Documents,
    both_servers,
    id_strategy,
)
from structlog.testing import capture_logs

from tidings_connect.errors import RecordError
from tidings_envelope.toast import UNAVAILABLE
from tidings_sinks.errors import RowError


@both_servers
@pytest.mark.parametrize(
    ("name", "key", "value", "reason"),
    [
        ("FullKey", None, {"n": 1}, "no key"),
        ("ProvidedInKey", {"id": 1}, {"n": 1}, "no _id"),
        ("ProvidedInValue", {"id": 1}, {"n": 1}, "no _id"),
        ("UuidProvidedInKey", {"_id": "secret"}, {"n": 1}, "not a UUID"),
        ("FullKey", [1], {"n": 1}, "InvalidIdField"),
        ("FullKey", {"id": 1}, "secret", "value is not a struct"),
        ("FullKey", {"id": 1}, None, "delete.on.null.values"),
    ],
)
def test_a_bad_record_is_a_letter_and_the_others_are_written(
    documents: Documents, name: str, key: Any, value: Any, reason: str
) -> None:
    documents.config |= {"document.id.strategy": id_strategy(name), **LETTERS}
    good: Any = {"_id": UUID}
    documents.run()
    documents.put(good, {"n": 0, "_id": UUID})
    documents.put(key, value)
    documents.put(good, {"n": 2, "_id": UUID})
    documents.wait()
    assert [each["n"] for each in documents.raw()] == [2]
    (said,) = documents.reasons()
    assert reason in said
    assert "secret" not in said


def test_what_the_server_refuses_is_a_letter_and_the_others_are_written(documents: Documents) -> None:
    """In order and not; of a request of several the first, one in the middle and the last."""
    documents.database[documents.topic].create_index("n", unique=True)
    for ordered in ("true", "false"):
        documents.config |= BY_KEY | LETTERS | {"bulk.write.ordered": ordered}
        documents.run()
        for key, value in ((1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (1, 1)):
            documents.put({"id": key}, {"n": value})
        documents.wait()
    assert [each["n"] for each in documents.raw()] == [1, 3, 5]
    assert len(documents.letters()) == 4
    assert all("index n_1" in said for said in documents.reasons())


def test_a_document_that_cannot_be_sent_is_a_letter(documents: Documents) -> None:
    documents.config |= BY_KEY | LETTERS
    documents.run()
    for number, value in enumerate(({"n": 1}, {"a\0secret": 1}, {"secret": "x" * (16 << 20)}, {"n": 2})):
        documents.put({"id": number}, value)
    documents.wait()
    assert [each["n"] for each in documents.raw()] == [1, 2]
    form, size = documents.reasons()
    assert "has no form in BSON" in form
    assert "larger than" in size
    assert "secret" not in form + size


@pytest.mark.parametrize("name", ["a.b", "$a", ""])
def test_a_name_that_cannot_be_set_alone_is_a_letter(documents: Documents, name: str) -> None:
    """MongoDB would make a path of it, so that the value stood in another field than in whole documents."""
    documents.config |= BY_KEY | LETTERS
    documents.run()
    documents.put({"id": 1}, {"n": 1, "text": "long"})
    documents.put({"id": 1}, {"n": 2, "text": UNAVAILABLE, name: "secret"})
    documents.put({"id": 1}, {"n": 3, "text": UNAVAILABLE})
    documents.wait()
    (found,) = documents.found()
    assert found == {"_id": {"id": 1}, "n": 3, "text": "long"}
    (said,) = documents.reasons()
    assert f"cannot set the field {name!r}" in said
    assert "secret" not in said


@pytest.mark.parametrize("handler", [True, False], ids=["envelopes", "flat"])
def test_a_field_of_the_places_name_is_not_written_over(documents: Documents, handler: bool) -> None:
    """Another name is an option; the place that this sink has written to another collection may come with its document."""

    def put(number: int, **row: Any) -> None:
        value = {"before": None, "after": {"id": number, **row}, "op": "u", "source": {}}
        documents.put({"id": number}, value if handler else row)

    documents.config |= LETTERS | ({"change.data.capture.handler": POSTGRES} if handler else BY_KEY)
    documents.run()
    put(1, n=1, _tidings="secret")
    put(2, n=2, _tidings={"place": "there-0", "offset": 7})
    put(3, n=3, _tidings="secret", text=UNAVAILABLE)
    documents.wait()
    assert documents.found() == [{"_id": {"id": 2}, "n": 2}]
    assert documents.raw()[0]["_tidings"]["place"] == f"{documents.topic}-0"
    assert len(documents.reasons()) == 2
    assert all("set tidings.positions.field" in said and "secret" not in said for said in documents.reasons())
    documents.config["tidings.positions.field"] = "_place"
    documents.run()
    put(1, n=1, _tidings="kept")
    documents.wait()
    assert documents.raw()[0]["_tidings"] == "kept"


def test_by_default_a_bad_record_ends_the_task(documents: Documents) -> None:
    documents.config |= BY_KEY
    documents.run()
    documents.put({"id": 1}, "secret")
    error = documents.failure()
    assert isinstance(error, RecordError)
    assert "partition 0, offset 0" in str(error)
    assert "secret" not in str(error)


def test_its_own_tolerance_counts_more_than_the_frameworks(documents: Documents) -> None:
    documents.config |= BY_KEY
    documents.run(mongo_errors_tolerance="all")
    documents.put({"id": 1}, "text")
    documents.put({"id": 1}, {"n": 1})
    with capture_logs() as logs:
        documents.wait()
    assert len(documents.raw()) == 1
    assert [line["offset"] for line in logs if "left out" in line["event"]] == [0]
    documents.run(mongo_errors_tolerance="none", errors_tolerance="all")
    documents.put({"id": 1}, "text")
    error = documents.failure()
    assert isinstance(error, RowError)
    assert "partition 0, offset 2" in str(error)
