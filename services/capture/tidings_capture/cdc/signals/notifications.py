"""Notifications: what a connector tells about its snapshots, in Debezium's words, to a topic and to the log.

Schemas: ``io.debezium.connector.common.NotificationKey`` and ``Notification``; aggregate types "Initial Snapshot" (also
of blocking snapshots) and "Incremental Snapshot".
"""

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidings_capture.cdc.signals.options import SignalOptions
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Record
from tidings_envelope import semantic
from tidings_envelope.java.hash_order import copied_map_order
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_service import get_logger

INITIAL: Final = "Initial Snapshot"
INCREMENTAL: Final = "Incremental Snapshot"
LOSS: Final = "Loss"
"""Ours: changes may have been lost, and the connector goes on as ``on.slot.loss`` says."""

_TEXT_MAP: Final = ConnectSchema(ConnectType.MAP, optional=True, keys=semantic.STRING, items=semantic.STRING)
KEY: Final = semantic.struct(
    "io.debezium.connector.common.NotificationKey", (("id", semantic.STRING),), version=1
)
VALUE: Final = semantic.struct(
    "io.debezium.connector.common.Notification",
    (
        ("id", semantic.STRING),
        ("type", semantic.STRING),
        ("aggregate_type", semantic.STRING),
        ("additional_data", _TEXT_MAP),
        ("timestamp", semantic.INT64),
    ),
    version=1,
)  # fmt: skip

_log = get_logger(__name__)


class Notifier:
    """Sends a connector's notifications; costs nothing where no channel is enabled.

    Args:
        name: the connector's ``topic.prefix``.
        write: writes a notification to the topic, by the fields of `VALUE`.
    """

    def __init__(self, options: SignalOptions, name: str, write: Callable[[dict[str, Any]], None]) -> None:
        self._channels = options.notifications
        self._name = name
        self._write = write

    @property
    def enabled(self) -> bool:
        return bool(self._channels)

    def tell(
        self, aggregate: str, type_: str, data: Mapping[str, str] | None = None, *, id_: str | None = None
    ) -> None:
        """Send one notification.

        Args:
            aggregate: `INITIAL`, `INCREMENTAL` or `LOSS`.
            type_: ``STARTED``, ``IN_PROGRESS``, ``COMPLETED`` and so on.
            data: what is told beside the connector's name.
            id_: of the signal that asked for it; else a new one.
        """
        if not self._channels:
            return
        given = dict(data or {})
        order = copied_map_order(list(given), ["connector_name"])
        given["connector_name"] = self._name
        value = {
            "id": id_ or str(uuid.uuid4()),
            "type": type_,
            "aggregate_type": aggregate,
            "additional_data": {name: given[name] for name in order},
            "timestamp": time.time_ns() // 1_000_000,
        }
        if "log" in self._channels:
            _log.info("notification", **value)
        if "sink" in self._channels:
            self._write(value)


class EncodedNotifications:
    """Writes notifications with a connector's converters.

    Args:
        send: queues records for a topic.
        ensure_topic: creates a topic that does not exist.
    """

    def __init__(
        self,
        topic: str,
        converters: tuple[Converter, Converter],
        send: Callable[[str, list[Record]], None],
        ensure_topic: Callable[[str], None],
    ) -> None:
        self._topic = topic
        self._converters = converters
        self._send = send
        self._ensure_topic = ensure_topic
        self._encoders: tuple[Any, Any] | None = None

    def __call__(self, value: dict[str, Any]) -> None:
        """Write one."""
        encode_key, encode_value = self._made()
        self._send(self._topic, [(encode_key({"id": value["id"]}), encode_value(value), None)])

    def _made(self) -> tuple[Any, Any]:
        if self._encoders is None:
            self._ensure_topic(self._topic)
            key, value = self._converters
            self._encoders = (key.encoder(self._topic, KEY), value.encoder(self._topic, VALUE))
        return self._encoders
