"""From records to what requests are made of, and from that to requests. Pure."""

from base64 import b64encode
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from tidings_connect.task.sink import SinkRecord
from tidings_sinks.errors import RowError
from tidings_sinks.http import options as names
from tidings_sinks.http.events import BATCHED, STRUCTURED, Event, event_of
from tidings_sinks.http.settings import Mode, Settings
from tidings_sinks.http.signing import batch_id, safe_id, signed_headers
from tidings_sinks.http.values import Values

_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_BYTES: Final = "application/octet-stream"
_ONE_LANE: Final = ""


@dataclass(slots=True, eq=False)
class Message:
    """A record that is to be sent. Nobody changes it, nor a request; to say so would cost each microseconds."""

    record: SinkRecord
    id: str
    """Stays the same however often it is sent."""
    lane: Hashable
    """Those of one lane are sent one after the other."""
    url: str = field(repr=False)
    is_event: bool
    headers: Mapping[str, str] = field(repr=False)
    """Of a request of its own."""
    body: bytes = field(repr=False)

    def goes_with(self, other: "Message") -> bool:
        """Whether one request may have both."""
        return self.is_event == other.is_event and self.url == other.url


@dataclass(slots=True, eq=False)
class Request:
    """A request, but for what each attempt has anew."""

    url: str = field(repr=False)
    id: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Messages:
    """Reads records, and writes requests."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._values = Values(settings.decimals)
        self._urls: dict[str, str] = {}

    def read(self, record: SinkRecord) -> Message | None:
        """What is sent of a record; None: nothing.

        Raises:
            RowError: it is none that can be sent.
        """
        settings = self._settings
        if record.value is None:
            if settings.ignores_nulls:
                return None
            raise RowError(f"the record has no value; {names.NULLS}=ignore leaves such records out")
        event = None if settings.mode is Mode.NONE else event_of(record)
        if event is None:
            place = f"{record.original.topic}-{record.original.partition}-{record.offset}"
            identity, (headers, body) = safe_id(place), self._plain(record)
        else:
            identity, (headers, body) = safe_id(event.id), self._event(record, event)
        size = len(body) + settings.around_bytes
        if size > settings.most_bytes:
            raise RowError(
                f"the record makes a body of {size} bytes, more than {names.MOST_BYTES}={settings.most_bytes}"
            )
        return Message(
            record, identity, self._lane(record), self._url(record.topic), event is not None, headers, body
        )

    def request(self, messages: Sequence[Message]) -> Request:
        """The request for messages that go together."""
        first, settings = messages[0], self._settings
        identity, headers, body = first.id, first.headers, first.body
        if settings.batching:
            identity = batch_id([message.id for message in messages])
            bodies = [message.body for message in messages]
            if first.is_event:
                headers, body = {"content-type": BATCHED}, b"[" + b",".join(bodies) + b"]"
            else:
                body = settings.prefix + settings.separator.join(bodies) + settings.suffix
        own = {settings.id_header: identity} if settings.id_header else {}
        return Request(first.url, identity, {**settings.headers, **headers, **own}, body)

    def signed(self, request: Request, seconds: int) -> Mapping[str, str]:
        """The headers of an attempt.

        Args:
            seconds: when it is made, since the Unix epoch.
        """
        signers = self._settings.signers
        if not signers:
            return request.headers
        return {**request.headers, **signed_headers(signers, request.id, seconds, request.body)}

    def _lane(self, record: SinkRecord) -> Hashable:
        """Where only one request is on its way at a time, all records are in one lane, and their order is that of the topics."""
        if self._settings.in_flight == 1:
            return _ONE_LANE
        key = record.key
        if key is None:
            return record.original
        if isinstance(key, str | int | bytes):
            return key
        return orjson.dumps(key, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS)

    def _url(self, topic: str) -> str:
        known = self._urls.get(topic)
        if known is None:
            known = self._urls[topic] = self._settings.url_of(topic)
        return known

    # Headers and bodies

    def _plain(self, record: SinkRecord) -> tuple[Mapping[str, str], bytes]:
        content_type, body = self._body(record, record.value, iso=self._settings.iso_records)
        if self._settings.content_type:
            return {"content-type": self._settings.content_type}, body
        # Of text nothing is known, nor of what a separator makes of several records.
        return {} if self._settings.batching or content_type != _JSON else {"content-type": _JSON}, body

    def _event(self, record: SinkRecord, event: Event) -> tuple[Mapping[str, str], bytes]:
        value = event.data if event.structured else record.value
        if self._settings.mode is Mode.BINARY:
            if value is None:
                return event.headers(), b""
            content_type, body = self._body(record, value, iso=self._settings.iso_events)
            return {**event.headers(), "content-type": content_type}, body
        if value is None:
            return {"content-type": STRUCTURED}, event.document("", None, base64=False)
        content_type, body = self._body(record, value, iso=self._settings.iso_events)
        if content_type == _BYTES:
            data = orjson.dumps(b64encode(body).decode())
        else:
            data = body if content_type == _JSON else orjson.dumps(value)
        document = event.document(content_type, data, base64=content_type == _BYTES)
        return {"content-type": STRUCTURED}, document

    def _body(self, record: SinkRecord, value: Any, *, iso: bool) -> tuple[str, bytes]:
        if isinstance(value, str):
            return _TEXT, value.encode()
        if isinstance(value, bytes):
            return _BYTES, value
        schema = record.value_schema if value is record.value else None
        return _JSON, self._values.json(record.topic, schema, value, iso=iso)
