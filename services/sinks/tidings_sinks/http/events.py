"""Records that are CloudEvents, as they stand in Kafka, and the same events in HTTP. Pure.

Specified by CloudEvents 1.0.2 (github.com/cloudevents/spec): the Kafka protocol binding for what is read, the HTTP protocol binding
and the JSON event format for what is sent.
"""

import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import orjson

from tidings_connect.data.text import connect_text
from tidings_connect.task.sink import SinkRecord
from tidings_connect.transforms.record import Header
from tidings_sinks.errors import RowError

STRUCTURED: Final = "application/cloudevents+json; charset=UTF-8"
BATCHED: Final = "application/cloudevents-batch+json; charset=UTF-8"
_PREFIX: Final = "ce_"
_IS_EVENT: Final = f"{_PREFIX}specversion"
_STRUCTURED_TYPE: Final = "application/cloudevents+json"
_REQUIRED: Final = ("specversion", "id", "source", "type")
_NAME: Final = re.compile(r"[a-z0-9]+")
_UNESCAPED: Final = "!#$&'()*+,/:;<=>?@[\\]^`{|}~"
"""Beside letters, digits and ``-._~``: what a header's value has as it is. Blanks, double quotes and per cent signs are not among
it, nor is what is not visible ASCII."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event without its data."""

    attributes: Mapping[str, str]
    data: Any = field(repr=False)
    """Of an event in structured mode; else it is the record's value."""
    structured: bool

    @property
    def id(self) -> str:
        """What tells it from all others of its source."""
        return self.attributes["id"]

    def headers(self) -> dict[str, str]:
        """Its attributes as headers of a request in binary mode."""
        return {f"ce-{name}": quote(text, safe=_UNESCAPED) for name, text in self.attributes.items()}

    def document(self, content_type: str, data: bytes | None, *, base64: bool) -> bytes:
        """The event as one JSON document.

        Args:
            content_type: of the data.
            data: JSON; None: the event has none.
            base64: whether it is the JSON text of bytes in base64.
        """
        document: dict[str, Any] = dict(self.attributes)
        if document.get("deprecated") == "true":
            document["deprecated"] = True  # the one attribute of ours that is a boolean
        if data is not None:
            document["datacontenttype"] = content_type
            document["data_base64" if base64 else "data"] = orjson.Fragment(data)
        return orjson.dumps(document)


def event_of(record: SinkRecord) -> Event | None:
    """The event that a record is; None: it is none.

    Raises:
        RowError: it says that it is one, and is not.
    """
    names = {header.key for header in record.headers}
    if _IS_EVENT in names:
        found = {
            header.key.removeprefix(_PREFIX).lower(): header_text(header)
            for header in record.headers
            if header.key.startswith(_PREFIX) and header.value is not None
        }
        return Event(_checked(found), None, structured=False)
    if "content-type" in names and _is_structured(record):
        return _structured(record.value)
    return None


def header_text(header: Header) -> str:
    """A header's value as text: as it arrived, or as a transform made it."""
    if header.encoded is not None:
        return header.encoded.decode()
    return connect_text(header.schema, header.value)


def _is_structured(record: SinkRecord) -> bool:
    if not isinstance(record.value, Mapping):
        return False
    found = next(header for header in record.headers if header.key == "content-type")
    return found.value is not None and header_text(found).lower().startswith(_STRUCTURED_TYPE)


def _structured(document: Mapping[str, Any]) -> Event:
    attributes = {
        name: text if isinstance(text, str) else str(text).lower()
        for name, text in document.items()
        if name not in ("data", "data_base64", "datacontenttype") and text is not None
    }
    data = document.get("data")
    if (encoded := document.get("data_base64")) is not None:
        try:
            data = b64decode(encoded, validate=True)
        except (TypeError, ValueError):
            raise RowError("the event's data_base64 is not base64") from None
    return Event(_checked(attributes), data, structured=True)


def _checked(attributes: dict[str, str]) -> dict[str, str]:
    for name in _REQUIRED:
        if not attributes.get(name):
            raise RowError(f"the record is a CloudEvent and has no {name}")
    if attributes["specversion"] != "1.0":
        raise RowError("the record is a CloudEvent of another version than 1.0")
    attributes.pop("datacontenttype", None)
    for name in attributes:
        if not _NAME.fullmatch(name):
            raise RowError(f"the record is a CloudEvent, and {name} is not the name of an attribute")
    return attributes
