"""Logical messages (``pg_logical_emit_message``) as records of ``<prefix>.message``, op ``m``.

Schemas and behaviour: ``io.debezium.connector.postgresql.LogicalDecodingMessageMonitor``. A message without a
transaction has no ``txId``, and stands in the stream as if it were a commit at its own LSN.
"""

import base64
from collections.abc import Callable
from typing import Any, Final

from tidings_capture.cdc.encoding.options import BinaryHandling
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.postgres.encoding.source_block import source_of
from tidings_capture.postgres.server.ddl_trigger import MESSAGE_PREFIX
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.wire.messages import LogicalMessage
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Record
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema, ConnectType

COLLECTION: Final = "LOGICAL_DECODING_MESSAGE"
"""What messages count as in END markers. Debezium writes a Java object's name and address there."""
_CONTENT: Final[dict[BinaryHandling, Callable[[bytes], Any]]] = {
    BinaryHandling.BYTES: bytes,
    BinaryHandling.BASE64: lambda content: base64.b64encode(content).decode(),
    BinaryHandling.BASE64_URL_SAFE: lambda content: base64.urlsafe_b64encode(content).decode(),
    BinaryHandling.HEX: bytes.hex,
}
_KEY: Final = semantic.struct(
    "io.debezium.connector.postgresql.MessageKey", (("prefix", semantic.OPTIONAL_STRING),), version=1
)


class MessagePlan:
    """Encodes logical messages; topic and schemas are made with the first one."""

    def __init__(
        self,
        config: ConnectorConfig,
        converters: tuple[Converter, Converter],
        ensure_topic: Callable[[str], None],
    ) -> None:
        self.topic = f"{config.topic_prefix}.message"
        self._options = config.conversion
        self._captures = config.messages.captures
        self._content = _CONTENT[config.conversion.binary_handling]
        self._converters = converters
        self._ensure_topic = ensure_topic
        self._encoders: tuple[Callable[[Any], bytes], Callable[[Any], bytes]] | None = None

    def records(self, message: LogicalMessage, context: EventContext) -> list[Record]:
        """The message's record; none when the filters leave it out. Counts it in its transaction."""
        if message.prefix == MESSAGE_PREFIX or not self._captures(message.prefix):
            return []
        encode_key, encode_value = self._encoders or self._compile()
        value = {
            "op": "m",
            "ts_ms": context.now_ns // 1_000_000,
            "source": source_of(context, self._options),
            "transaction": self._block(context) if context.in_transaction else None,
            "message": {"prefix": message.prefix, "content": self._content(message.content)},
        }
        return [(encode_key({"prefix": message.prefix}), encode_value(value), None)]

    def _block(self, context: EventContext) -> dict[str, Any] | None:
        if not self._options.provide_transaction_metadata:
            return None
        context.total_order += 1
        context.event_counts[COLLECTION] = context.event_counts.get(COLLECTION, 0) + 1
        # To Debezium every message is a collection of its own, so that each is its first event.
        return {
            "id": f"{context.tx_id}:{context.position}",
            "total_order": context.total_order,
            "data_collection_order": 1,
        }

    def _compile(self) -> tuple[Callable[[Any], bytes], Callable[[Any], bytes]]:
        self._ensure_topic(self.topic)
        key, value = self._converters
        is_bytes = self._options.binary_handling is BinaryHandling.BYTES
        content = ConnectSchema(ConnectType.BYTES if is_bytes else ConnectType.STRING, optional=True)
        block = semantic.struct(
            "io.debezium.connector.postgresql.Message",
            (("prefix", semantic.OPTIONAL_STRING), ("content", content)),
            version=1,
        )
        schema = semantic.struct(
            "io.debezium.connector.postgresql.MessageValue",
            (
                ("op", semantic.STRING),
                ("ts_ms", semantic.OPTIONAL_INT64),
                ("source", semantic.POSTGRES_SOURCE),
                ("transaction", semantic.TRANSACTION_BLOCK),
                ("message", block),
            ),
            version=1,
        )
        self._encoders = key.encoder(self.topic, _KEY), value.encoder(self.topic, schema)
        return self._encoders
