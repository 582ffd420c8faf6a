"""Encodes a published event as a record's value: Confluent's wire format around the event's Avro body.

Schema ids come from the registry and are cached, so that only the first event of a version costs a request; a service
calls `prepare` when it starts, so that a missing registry or a refused schema is seen then and not at the first event.
"""

from tidings_domain.contracts.registration import SchemaRegistry, register_event
from tidings_domain.evaluation.evaluate import PublishedEvent
from tidings_domain.language.events import BusinessEvent, contract_of, topic_of
from tidings_envelope.wire import frame


def subject_of(event: type[BusinessEvent]) -> str:
    """The registry's subject of an event version."""
    return f"{topic_of(event)}-value"


class EventEncoder:
    """Frames events with their schema ids."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._ids: dict[type[BusinessEvent], int] = {}

    def prepare(self, events: tuple[type[BusinessEvent], ...]) -> None:
        """Register every event version, so that none has to be registered while events flow.

        Raises:
            RegistryError: not reachable, or a contract is refused.
        """
        for event in events:
            self._schema_id(event)

    def encode(self, event: PublishedEvent) -> bytes:
        """The record's value.

        Raises:
            RegistryError: the event's version is not known yet and the registry is not reachable or refuses it.
        """
        cls = type(event.event)
        schema_id = self._ids.get(cls)
        return frame(self._schema_id(cls) if schema_id is None else schema_id, event.body)

    def _schema_id(self, event: type[BusinessEvent]) -> int:
        schema_id = self._ids[event] = register_event(self._registry, subject_of(event), contract_of(event))
        return schema_id
