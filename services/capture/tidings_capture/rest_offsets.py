"""The bodies of ``/connectors/{name}/offsets`` (KIP-875)."""

from typing import Any, Final

from aiohttp import web

from tidings_capture.connector_offsets import Offset, Partition
from tidings_capture.rest_errors import BadRequestError, MalformedBodyError
from tidings_capture.rest_routing import read_body

_FIELDS: Final = frozenset({"partition", "offset"})


async def read_offsets(request: web.Request) -> list[tuple[Partition, Offset | None]]:
    """What is to be stored, from ``{"offsets": [{"partition": {...}, "offset": {...} or null}]}``.

    Raises:
        MalformedBodyError: the body has another shape.
        BadRequestError: there is nothing in it.
    """
    body = await read_body(request)
    if not isinstance(body, dict) or body.keys() - {"offsets"}:
        raise MalformedBodyError("the request's body must be a JSON object with offsets alone")
    offsets = body.get("offsets")
    if offsets is not None and not isinstance(offsets, list):
        raise MalformedBodyError("offsets must be a list")
    if not offsets:
        raise BadRequestError("Partitions / offsets need to be provided for an alter offsets request")
    return [_entry(entry) for entry in offsets]


def _entry(entry: Any) -> tuple[Partition, Offset | None]:
    if not isinstance(entry, dict) or entry.keys() - _FIELDS:
        raise MalformedBodyError("every one of offsets must be an object with partition and offset")
    partition, offset = entry.get("partition"), entry.get("offset")
    if not isinstance(partition, dict | None) or not isinstance(offset, dict | None):
        raise MalformedBodyError("partition and offset must be objects or null")
    return partition, offset


def modified(done: str) -> str:
    """What is answered when offsets were ``altered`` or ``reset``."""
    return (
        f"The Connect framework-managed offsets for this connector have been {done} successfully. However, if this "
        f"connector manages offsets externally, they will need to be manually {done} in the system that the connector "
        "uses."
    )
