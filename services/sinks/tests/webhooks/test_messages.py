"""What requests hold: bodies, CloudEvents as the Python SDK reads them, signatures as the library of Standard Webhooks verifies them."""

import json
import re
import shutil
import subprocess
import time
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_binary, from_structured
from cloudevents.core.formats.json import JSONFormat
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from webhook_parts import EVENT

from tidings_connect.task.sink import SinkRecord, TopicPartition
from tidings_connect.transforms.record import Header
from tidings_envelope.decimals import CONNECT_DECIMAL
from tidings_envelope.schema import ConnectSchema, ConnectType, Field
from tidings_sinks.errors import RowError
from tidings_sinks.http.answers import retry_after_seconds
from tidings_sinks.http.messages import Messages, Request
from tidings_sinks.http.settings import read_settings

SCHEMA = ConnectSchema(
    ConnectType.STRUCT,
    name="Order",
    fields=(
        Field("id", ConnectSchema(ConnectType.INT64)),
        Field("total", ConnectSchema(ConnectType.BYTES, name=CONNECT_DECIMAL, parameters={"scale": "2"})),
        Field(
            "day", ConnectSchema(ConnectType.INT32, name="org.apache.kafka.connect.data.Date", optional=True)
        ),
        Field("at", ConnectSchema(ConnectType.INT64, name="org.apache.kafka.connect.data.Timestamp")),
        Field("data", ConnectSchema(ConnectType.BYTES)),
        Field("tags", ConnectSchema(ConnectType.ARRAY, items=ConnectSchema(ConnectType.STRING))),
        Field("note", ConnectSchema(ConnectType.STRING, optional=True, default="none")),
    ),
)
ROW = {
    "id": 7, "total": Decimal("12.30"), "day": 20_455, "at": 1_767_323_045_678, "data": b"\0\xff", "tags": ["a", "\u00fc"], "note": None,
}  # fmt: skip
CONNECT = {
    "id": 7, "total": b64encode(b"\x04\xce").decode(), "day": 20_455, "at": 1_767_323_045_678, "data": "AP8=", "tags": ["a", "\u00fc"],
    "note": "none",
}  # fmt: skip
ISO = {
    "id": 7, "total": "12.30", "day": "2026-01-02", "at": "2026-01-02T03:04:05.678000Z", "data": "AP8=", "tags": ["a", "\u00fc"],
    "note": None,
}  # fmt: skip
MOMENT = "2026-01-01T00:00:01.000000Z"
SECRETS = (b"a" * 24, b"b" * 64)
PAGE = Path(__file__).parents[4] / "docs" / "webhooks.md"


def messages(**more: str) -> Messages:
    named = {name.replace("_", "."): text for name, text in more.items()}
    return Messages(read_settings({"http.url": "http://r/hook", "http.authorization.type": "none", **named}))


def record(
    value: Any = ROW, schema: ConnectSchema | None = SCHEMA, offset: int = 5, **headers: str
) -> SinkRecord:
    made = [Header(name.replace("__", "-"), None, text, text.encode()) for name, text in headers.items()]
    return SinkRecord(
        "shop.orders", 3, None, "k", schema, value, 0, made, offset, TopicPartition("shop.orders", 3)
    )


def event(value: Any = ROW, schema: ConnectSchema | None = SCHEMA, **more: str) -> SinkRecord:
    attributes = {**EVENT, "ce_id": "11111111-1111-5111-8111-111111111111", "ce_time": MOMENT, **more}
    return record(value, schema, **attributes)


def request(record: SinkRecord, **more: str) -> Request:
    made = messages(**more)
    message = made.read(record)
    assert message is not None
    return made.request([message])


def whsec(secret: bytes) -> str:
    return f"whsec_{b64encode(secret).decode()}"


# Records


def test_a_record_is_the_json_of_aiven_s_connector() -> None:
    made = request(record())
    assert json.loads(made.body) == CONNECT
    assert made.headers == {"content-type": "application/json", "Idempotency-Key": "shop%2Eorders-3-5"}
    assert json.loads(request(record(), decimal_format="NUMERIC").body)["total"] == 12.30
    assert b'"total":12.30' in request(record(), decimal_format="NUMERIC").body
    assert json.loads(request(record(), tidings_http_values="iso").body) == ISO


@pytest.mark.parametrize("value", [{"a": [1, None, {"b": "\u00fc"}]}, [1, 2], 7, True])
def test_a_value_without_a_schema_is_json(value: Any) -> None:
    assert json.loads(request(record(value, None)).body) == value


def test_text_and_bytes_are_as_they_are() -> None:
    made = request(record("gr\u00fc\u00df", None))
    assert (made.body, made.headers.get("content-type")) == ("gr\u00fc\u00df".encode(), None)
    assert request(record(b"\0\1", None)).body == b"\0\1"
    made = request(
        record("<a/>", None),
        http_headers_content_type="application/xml",
        http_headers_additional="X-Team:a, X-Id : b:c",
    )
    assert made.headers == {
        "X-Team": "a",
        "X-Id": "b:c",
        "content-type": "application/xml",
        "Idempotency-Key": "shop%2Eorders-3-5",
    }


def test_what_cannot_be_sent_is_a_bad_record_and_no_value_is_told() -> None:
    schema = ConnectSchema(
        ConnectType.STRUCT, name="N", fields=(Field("n", ConnectSchema(ConnectType.FLOAT64)),)
    )
    with pytest.raises(RowError, match="not finite"):
        request(record({"n": float("nan")}, schema), tidings_http_values="iso")
    for form in ("iso", "connect"):
        with pytest.raises(RowError) as caught:
            request(record({**ROW, "at": "secret"}), tidings_http_values=form)
        assert "secret" not in str(caught.value)
    with pytest.raises(RowError, match="body of 11 bytes"):
        request(record("x" * 11, None), tidings_http_max_body_bytes="10")
    with pytest.raises(RowError, match="no value"):
        request(record(None, None))


def test_the_url_may_have_the_topic() -> None:
    assert (
        request(record(), http_url="http://r/in/${topic}?t=${topic}").url
        == "http://r/in/shop.orders?t=shop.orders"
    )


def test_a_batch_has_aiven_s_form() -> None:
    made = messages(batching_enabled="true")
    three = [made.read(record({"n": number}, None, number)) for number in range(3)]
    batch = made.request([message for message in three if message])
    assert batch.body == b'{"n":0}\n{"n":1}\n{"n":2}\n'
    assert "content-type" not in batch.headers
    assert batch.headers["Idempotency-Key"] == batch.id
    again = made.request([message for message in three if message])
    assert again.id == batch.id != made.request([message for message in three[:2] if message]).id


# CloudEvents


def attributes_of(read: Any) -> dict[str, Any]:
    found = dict(read.get_attributes())
    return {name: text for name, text in found.items() if text is not None} | {"time": read.get_time()}


def wanted(**more: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": "11111111-1111-5111-8111-111111111111",
        "type": EVENT["ce_type"],
        "source": EVENT["ce_source"],
        "time": datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC),
        "datacontenttype": "application/json",
        **more,
    }


@pytest.mark.parametrize("subject", ["order-7", 'a b"c%d\u00fc\U0001f6b2\ne'])
def test_the_python_sdk_reads_events(subject: str) -> None:
    """Also attributes that no header could hold as they are."""
    given = event(ce_subject=subject, ce_sequence="01-2", ce_deprecated="true")
    made = request(given)
    assert made.headers["Idempotency-Key"] == "11111111-1111-5111-8111-111111111111"
    assert all(text.isascii() and text.isprintable() for text in made.headers.values())
    read = from_binary(HTTPMessage(dict(made.headers), made.body), JSONFormat())
    assert attributes_of(read) == wanted(subject=subject, sequence="01-2", deprecated="true")
    assert read.get_data() == ISO
    made = request(given, tidings_http_cloudevents="structured")
    assert made.headers["content-type"] == "application/cloudevents+json; charset=UTF-8"
    read = from_structured(HTTPMessage(dict(made.headers), made.body), JSONFormat())
    assert attributes_of(read) == wanted(subject=subject, sequence="01-2", deprecated=True)
    assert read.get_data() == ISO


def test_the_python_sdk_reads_a_batch_of_events() -> None:
    made = messages(batching_enabled="true")
    given = [made.read(event(ce_id=f"e-{number}")) for number in range(3)]
    batch = made.request([message for message in given if message])
    assert batch.headers["content-type"] == "application/cloudevents-batch+json; charset=UTF-8"
    for number, document in enumerate(json.loads(batch.body)):
        read = JSONFormat().read(None, json.dumps(document).encode())
        assert attributes_of(read) == wanted(id=f"e-{number}")
        assert read.get_data() == ISO


@pytest.mark.parametrize(
    ("value", "kind"), [(b"\0\xff", "application/octet-stream"), ("text", "text/plain; charset=utf-8")]
)
def test_data_that_is_not_json(value: Any, kind: str) -> None:
    made = request(event(value, None))
    read = from_binary(HTTPMessage(dict(made.headers), made.body), JSONFormat())
    assert (read.get_data(), read.get_datacontenttype()) == (value, kind)
    made = request(event(value, None), tidings_http_cloudevents="structured")
    read = from_structured(HTTPMessage(dict(made.headers), made.body), JSONFormat())
    assert (read.get_data(), read.get_datacontenttype()) == (value, kind)


def test_events_that_are_structured_in_kafka() -> None:
    document = {
        "specversion": "1.0", "id": "11111111-1111-5111-8111-111111111111", "type": EVENT["ce_type"], "source": EVENT["ce_source"],
        "time": MOMENT, "deprecated": True, "datacontenttype": "application/json", "data": {"id": 7},
    }  # fmt: skip
    given = record(document, None)._replace(
        headers=[Header("content-type", None, "application/cloudevents+json; charset=UTF-8")]
    )
    made = request(given)
    read = from_binary(HTTPMessage(dict(made.headers), made.body), JSONFormat())
    assert attributes_of(read) == wanted(deprecated="true")
    assert read.get_data() == {"id": 7}
    assert json.loads(request(given, tidings_http_cloudevents="structured").body) == document
    encoded = {**document, "data_base64": "AAE="}
    del encoded["data"]
    assert request(given._replace(value=encoded)).body == b"\0\1"


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"ce_id": ""}, "has no id"),
        ({"ce_specversion": "0.3"}, "another version"),
        ({"ce_odd_name": "x"}, "odd_name is not the name of an attribute"),
    ],
)
def test_a_record_that_says_it_is_an_event_and_is_not_is_a_bad_one(
    headers: dict[str, str], words: str
) -> None:
    with pytest.raises(RowError, match=words):
        request(event(**headers))


def test_events_may_be_sent_as_other_records() -> None:
    made = request(event(), tidings_http_cloudevents="none")
    assert json.loads(made.body) == CONNECT
    assert made.headers == {"content-type": "application/json", "Idempotency-Key": "shop%2Eorders-3-5"}
    assert json.loads(request(event(), tidings_http_values="connect").body) == CONNECT


# Signatures


@pytest.mark.parametrize("given", [record(), event(), record("text", None)])
def test_the_library_of_standard_webhooks_verifies_what_each_secret_has_signed(given: SinkRecord) -> None:
    made = messages(tidings_http_signature_secrets=", ".join(map(whsec, SECRETS)))
    message = made.read(given)
    assert message is not None
    ready = made.request([message])
    headers = dict(made.signed(ready, int(time.time())))
    assert headers["webhook-id"] == ready.id == headers["Idempotency-Key"]
    assert "." not in headers["webhook-id"]
    for secret in SECRETS:
        Webhook(whsec(secret)).verify(ready.body, headers, json_parse=False)
    for changed, body in (({"webhook-id": "other"}, ready.body), ({}, ready.body + b" ")):
        with pytest.raises(WebhookVerificationError):
            Webhook(whsec(SECRETS[0])).verify(body, headers | changed, json_parse=False)
    with pytest.raises(WebhookVerificationError, match="No matching"):
        Webhook(whsec(b"c" * 24)).verify(ready.body, headers, json_parse=False)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_openssl_makes_keys_and_libsodium_verifies_what_they_have_signed(tmp_path: Path) -> None:
    """By the commands of docs/webhooks.md, beside a secret: a receiver reads the signature that it knows."""
    commands = re.search(r"```sh\n(openssl genpkey .*?)```", PAGE.read_text(), re.DOTALL)
    assert commands is not None
    printed = subprocess.run(
        commands[1], shell=True, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split()
    private, public = (key.partition("_") for key in printed)
    assert (private[0], public[0]) == ("whsk", "whpk")
    pair = "whsk_" + b64encode(b64decode(private[2]) + b64decode(public[2])).decode()
    for key in (printed[0], pair):
        made = messages(tidings_http_signature_secrets=f"{whsec(SECRETS[0])},{key}")
        message = made.read(event())
        assert message is not None
        ready = made.request([message])
        headers = made.signed(ready, 1_767_225_600)
        symmetric, asymmetric = headers["webhook-signature"].split(" ")
        assert symmetric.startswith("v1,")
        version, _, signature = asymmetric.partition(",")
        assert version == "v1a"
        signed = f"{ready.id}.1767225600.".encode() + ready.body
        VerifyKey(b64decode(public[2])).verify(signed, b64decode(signature))
        with pytest.raises(BadSignatureError):
            VerifyKey(b64decode(public[2])).verify(signed + b" ", b64decode(signature))


def test_nothing_is_signed_without_a_secret() -> None:
    made = messages()
    ready = request(record())
    assert made.signed(ready, 0) == ready.headers


# Answers


def test_retry_after_is_seconds_or_a_date() -> None:
    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    assert retry_after_seconds("120", now) == 120
    assert retry_after_seconds(" 0 ", now) == 0
    assert retry_after_seconds("Thu, 01 Jan 2026 12:00:30 GMT", now) == 30
    assert retry_after_seconds("Thu, 01 Jan 2026 11:00:30 GMT", now) == 0
    assert retry_after_seconds("Thu, 01 Jan 2037 11:00:30 GMT", now) == 3600
    for text in ("", "soon", "-1", "1.5", "\u0661"):
        assert retry_after_seconds(text, now) is None
