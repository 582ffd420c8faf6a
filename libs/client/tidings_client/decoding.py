"""From a Kafka record to a `Received`: CloudEvents in binary mode with Avro, or in structured mode with JSON.

Formats: CloudEvents' Kafka protocol binding 1.0.2; Confluent's wire format (a zero byte, the schema id in four bytes).
"""

import io
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

import fastavro

from tidings_client.errors import ClientError
from tidings_client.received import Received
from tidings_client.registry import Registry
from tidings_client.typed import compile_class

T = TypeVar("T")
_STRUCTURED = b"application/cloudevents+json"


class Decoder(Generic[T]):
    """Reads one event class's records."""

    def __init__(self, cls: type[T], registry: Registry) -> None:
        self._make: Callable[[dict[str, Any]], T] = compile_class(cls)
        self._registry = registry

    def decode(self, value: bytes, headers: dict[str, bytes], position: str) -> Received[T]:
        """The event of a record.

        Raises:
            ClientError: it is none, or does not fit the class; names the position.
        """
        try:
            if headers.get("content-type", b"").startswith(_STRUCTURED):
                data, attributes = self._structured(value)
            else:
                data, attributes = self._binary(value, headers)
            return Received(
                self._make(data),
                attributes["type"],
                attributes["id"],
                attributes.get("subject", ""),
                datetime.fromisoformat(attributes["time"]),
                attributes.get("sequence", ""),
                attributes,
                position,
            )
        except ClientError as error:
            raise ClientError(f"{position}: {error}") from error
        except KeyError as error:
            raise ClientError(f"{position}: no CloudEvent, it lacks {error}") from error
        except (
            ValueError, EOFError, IndexError, TypeError, AttributeError, ArithmeticError, RecursionError, StopIteration
        ) as error:  # fmt: skip
            raise ClientError(f"{position}: its bytes are not an event") from error

    def _binary(self, value: bytes, headers: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, str]]:
        attributes = {
            name.removeprefix("ce_"): text.decode()
            for name, text in headers.items()
            if name.startswith("ce_")
        }
        if value[:1] != b"\0":
            raise ClientError("it is not in the registry's wire format")
        stream = io.BytesIO(value)
        stream.seek(5)
        data = fastavro.schemaless_reader(
            stream, self._registry.schema(int.from_bytes(value[1:5], "big")), None
        )
        if not isinstance(data, dict):
            raise ClientError("its schema is not of a record")
        return data, attributes

    @staticmethod
    def _structured(value: bytes) -> tuple[dict[str, Any], dict[str, str]]:
        document = json.loads(value)
        data = document.pop("data")
        return data, {
            name: text if isinstance(text, str) else json.dumps(text) for name, text in document.items()
        }
