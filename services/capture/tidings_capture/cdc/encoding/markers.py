"""Records that are not changes of a table: transaction markers and heartbeats."""

from typing import Any

from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.event_context import EventContext
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Record
from tidings_envelope import semantic
from tidings_envelope.java.hash_order import java_hash_order


class MarkerPlan:
    """Encodes transaction markers and heartbeats; their records carry no headers, as Debezium's do not,
    but for END markers of transactions of which something was left out (`left_out`)."""

    def __init__(
        self, options: ConversionOptions, key_converter: Converter, value_converter: Converter
    ) -> None:
        self.transaction_topic = options.transaction_topic or f"{options.topic_prefix}.transaction"
        self.heartbeat_topic = options.heartbeat_topic or f"__debezium-heartbeat.{options.topic_prefix}"
        self._prefix = options.topic_prefix
        self._key = self._value = None
        if options.provide_transaction_metadata:
            self._key = key_converter.encoder(self.transaction_topic, semantic.TRANSACTION_KEY)
            self._value = value_converter.encoder(self.transaction_topic, semantic.TRANSACTION_VALUE)
        self._converters = key_converter, value_converter
        self._heartbeat: tuple[Any, Any] | None = None

    def begin(self, context: EventContext) -> Record:
        """The BEGIN marker; `context.position` is where the database tells of its start. Its id is
        ``txid:position``."""
        return self._marker(context, {"status": "BEGIN", "event_count": None, "data_collections": None})

    def end(self, context: EventContext) -> Record:
        """The END marker; `context.position` is the position after the commit; counts are taken from `context`, and what of
        them did not come out is told in a header, which Debezium does not have."""
        counts = context.event_counts
        collections = [
            {"data_collection": name, "event_count": counts[name]} for name in java_hash_order(list(counts))
        ]
        key, value, _ = self._marker(
            context, {"status": "END", "event_count": context.total_order, "data_collections": collections}
        )
        return key, value, context.left_out.headers()

    def _marker(self, context: EventContext, fields: dict[str, Any]) -> Record:
        if self._key is None or self._value is None:
            raise RuntimeError("transaction markers need provide.transaction.metadata")
        transaction_id = f"{context.tx_id}:{context.position}"
        value = {**fields, "id": transaction_id, "ts_ms": context.ts_us // 1_000}
        return self._key({"id": transaction_id}), self._value(value), None

    def heartbeat(self, now_ns: int) -> Record:
        """A heartbeat; its schemas are registered with the first one."""
        if self._heartbeat is None:
            key, value = self._converters
            self._heartbeat = (
                key.encoder(self.heartbeat_topic, semantic.HEARTBEAT_KEY),
                value.encoder(self.heartbeat_topic, semantic.HEARTBEAT_VALUE),
            )
        encode_key, encode_value = self._heartbeat
        return encode_key({"serverName": self._prefix}), encode_value({"ts_ms": now_ns // 1_000_000}), None


def compile_markers(
    options: ConversionOptions, key_converter: Converter, value_converter: Converter
) -> MarkerPlan:
    """Compiles the encoders; registers the transaction topic's schemas where there is a registry.

    Raises:
        RegistryError: the registry refused a schema or could not be reached.
    """
    return MarkerPlan(options, key_converter, value_converter)
