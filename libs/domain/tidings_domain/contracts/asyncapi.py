"""Writes the AsyncAPI 3 document of a domain's business events, which downstream teams read and generate code from.

It is made of the contracts alone and has a fixed order, so that it can be kept in a repository and compared. Payloads are
Avro in Confluent's wire format, headers are CloudEvents' (see `cloudevents`). Formats: AsyncAPI 3.0.0; bindings of Kafka
0.5.0; Avro payloads by ``schemaFormat``.
"""

from collections.abc import Iterable
from typing import Any, Final

from tidings_domain.contracts.contracts import Contract, newest
from tidings_domain.language.lifecycle import Lifecycle

_KAFKA: Final = "0.5.0"
_AVRO: Final = "application/vnd.apache.avro;version=1.9.0"


def asyncapi(
    domain: str, contracts: Iterable[Contract], *, version: str, server: str | None = None
) -> dict[str, Any]:
    """The document, as JSON values.

    Args:
        domain: such as ``shop``.
        contracts: of this and perhaps other domains.
        version: the document's own version.
        server: host:port of the Kafka cluster, where it is to be named.
    """
    own = sorted((c for c in contracts if c.domain == domain), key=lambda c: (c.event, c.major))
    latest = newest(own)
    document: dict[str, Any] = {
        "asyncapi": "3.0.0",
        "info": {
            "title": f"Business events of the domain {domain}",
            "version": version,
            "description": "One topic per event and major version. Within a major version every reader reads every event; read"
            " with isolation.level=read_committed. A record's key is the aggregate's id, so that the events of one"
            " aggregate are in commit order; ce_id identifies an event for good.",
        },
        "defaultContentType": "application/avro",
    }
    if server is not None:
        document["servers"] = {"kafka": {"host": server, "protocol": "kafka"}}
    document["channels"] = {contract.topic: _channel(contract) for contract in own}
    document["operations"] = {f"publish.{contract.topic}": _operation(contract) for contract in own}
    document["components"] = {
        "messages": {
            _message_name(contract): _message(contract, latest[domain, contract.event]) for contract in own
        },
        "messageTraits": {"cloudevents": {"headers": _HEADERS}},
    }
    return document


def _message_name(contract: Contract) -> str:
    return f"{contract.class_name}V{contract.major}"


def _channel(contract: Contract) -> dict[str, Any]:
    name = _message_name(contract)
    return {
        "address": contract.topic,
        "title": f"{contract.class_name}, version {contract.major}",
        "messages": {name: {"$ref": f"#/components/messages/{name}"}},
        "bindings": {"kafka": {"topic": contract.topic, "bindingVersion": _KAFKA}},
    }


def _operation(contract: Contract) -> dict[str, Any]:
    channel = f"#/channels/{contract.topic}"
    return {
        "action": "send",
        "channel": {"$ref": channel},
        "messages": [{"$ref": f"{channel}/messages/{_message_name(contract)}"}],
    }


def _message(contract: Contract, latest: Contract) -> dict[str, Any]:
    lifecycle = contract.lifecycle
    message: dict[str, Any] = {
        "name": contract.topic,
        "title": f"{contract.class_name}, version {contract.major}",
        "summary": contract.schema["doc"],
        "contentType": "application/avro",
        "traits": [{"$ref": "#/components/messageTraits/cloudevents"}],
        "payload": {"schemaFormat": _AVRO, "schema": contract.schema},
        "bindings": {
            "kafka": {
                "key": {"type": "string", "description": "The aggregate's id."},
                "schemaIdLocation": "payload",
                "schemaIdPayloadEncoding": "confluent",
                "bindingVersion": _KAFKA,
            }
        },
    }
    if lifecycle.deprecated is not None:
        message["description"] = _farewell(lifecycle, contract, latest)
        message["tags"] = [{"name": "deprecated"}]
        if lifecycle.migration is not None:
            message["externalDocs"] = {"url": lifecycle.migration}
    return message


def _farewell(lifecycle: Lifecycle, contract: Contract, latest: Contract) -> str:
    text = f"Deprecated since {lifecycle.deprecated}"
    if lifecycle.sunset is not None:
        text += f"; may be gone from {lifecycle.sunset}"
    return f"{text}. Read {latest.topic} instead." if latest is not contract else f"{text}."


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


_HEADERS: Final[dict[str, Any]] = {
    "type": "object",
    "description": "CloudEvents 1.0, binary mode of the Kafka protocol binding: UTF-8 texts.",
    "required": [
        "ce_specversion", "ce_type", "ce_source", "ce_id", "ce_time", "ce_subject", "ce_sequence", "ce_dataschema",
        "content-type",
    ],
    "properties": {
        "ce_specversion": _text("CloudEvents' version.", const="1.0"),
        "ce_type": _text("The event and its major version; equal to the topic."),
        "ce_source": _text("The aggregate's kind, a URI reference."),
        "ce_id": _text("Identifies the event for good, also through replays: deduplicate by it.", format="uuid"),
        "ce_time": _text("When the database transaction committed.", format="date-time"),
        "ce_subject": _text("The aggregate's id; equal to the key."),
        "ce_sequence": _text("Sorts as the commits do."),
        "ce_dataschema": _text("Names the contract and its major version.", format="uri"),
        "ce_deprecated": _text("Only on deprecated versions.", const="true"),
        "ce_deprecationfrom": _text("From when the version is deprecated.", format="date-time"),
        "ce_deprecationsunset": _text("From when the version may be gone.", format="date-time"),
        "ce_deprecationmigration": _text("Where it is written how to move on.", format="uri"),
        "ce_traceparent": _text("The trace that caused the transaction (W3C Trace Context), where it is known."),
        "ce_tracestate": _text("With ce_traceparent: what vendors add to it."),
        "content-type": _text("The payload's media type.", const="application/avro"),
    },
}  # fmt: skip
