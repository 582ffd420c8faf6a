"""The indexes and data streams that are written to: they are created, and get mappings for the fields that come.

A field that has a mapping keeps it, whoever gave it; so does one that is an object to one side and a value to the other, whose
documents the server then refuses one by one.
"""

from collections.abc import Mapping
from typing import Any, Final

from tidings_connect.task.sink import SinkRecord
from tidings_service import get_logger
from tidings_sinks.documents import Mapped
from tidings_sinks.errors import TargetError
from tidings_sinks.search import options as names
from tidings_sinks.search.client import Client
from tidings_sinks.search.operations import Operation
from tidings_sinks.search.settings import Settings

_GC_DELETES: Final = "10m"
"""How long an index that is created here keeps the versions of deleted documents: twice what a task may be silent before its
partitions are another's (``max.poll.interval.ms``), so that what it still sends is refused."""
_PRIORITY: Final = 200

_log = get_logger(__name__)


class Targets:
    """The targets of one task."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client, self._settings = client, settings
        self._properties: dict[str, dict[str, Any]] = {}
        """What is known to be mapped, by target."""
        self._seen: dict[tuple[str, int], object] = {}
        """Which schemas have been compared with which target; they are held, as they are found by identity."""

    def prepare(self, operation: Operation) -> None:
        """See that the target is there, and has a mapping for the record's fields.

        Raises:
            RetriableError: the server is away or busy.
            TargetError: it has no such target, or refuses the mapping.
        """
        shape, target = operation.shape, operation.target
        mark = (target, id(shape))
        if mark in self._seen:
            return
        wanted: Mapping[str, Mapped] = {}
        if shape.mapping is not None and self._settings.takes_schema(operation.record.topic):
            wanted = shape.mapping["properties"]
        known = self._properties.get(target)
        if known is None:
            known = self._properties[target] = self._found(target, operation.record, wanted)
        missing = _missing(wanted, known)
        if missing:
            self._put(target, missing)
            _add(known, missing)
        if len(self._seen) > 1000:
            self._seen.clear()
        self._seen[mark] = shape

    def _found(self, target: str, record: SinkRecord, wanted: Mapping[str, Mapped]) -> dict[str, Any]:
        """What is mapped; the target is created where it is missing."""
        present = self._client.mapping(target)
        if present is None:
            if self._settings.exists:
                raise TargetError(
                    f"there is no {self._settings.resource_kind} {target}, which {names.RESOURCES} names for topic {record.topic}"
                )
            if self._settings.streams:
                self._create_stream(target, wanted)
            else:
                settings = {"index.gc_deletes": _GC_DELETES}
                body = {"settings": settings, "mappings": {"properties": wanted}}
                self._client.put(f"/{target}", body, f"to create index {target}")
            _log.info("created", target=target)
            present = self._client.mapping(target) or []
        return _common([mapping.get("properties", {}) for mapping in present])

    def _create_stream(self, target: str, wanted: Mapping[str, Mapped]) -> None:
        given = self._settings.stream_template
        if not given or not self._client.exists(f"/_index_template/{given}"):
            self._put_template(target, wanted)
        self._client.put(f"/_data_stream/{target}", {}, f"to create data stream {target}")

    def _put_template(self, target: str, wanted: Mapping[str, Mapped]) -> None:
        name = self._settings.stream_template or f"{target}-index-template"
        body = {
            "index_patterns": [target],
            "priority": _PRIORITY,
            "data_stream": {"timestamp_field": {"name": self._settings.stream_time}},
            "template": {"mappings": {"properties": wanted}},
        }
        self._client.put(f"/_index_template/{name}", body, f"to create index template {name}")

    def _put(self, target: str, missing: Mapping[str, Any]) -> None:
        scope = "?write_index_only=true" if self._settings.streams else ""
        what = f"to map fields of {target}"
        self._client.put(f"/{target}/_mapping{scope}", {"properties": missing}, what)
        if self._settings.streams and not self._settings.exists and not self._settings.stream_template:
            known = dict(self._properties[target])
            _add(known, missing)
            known.pop(self._settings.stream_time, None)
            self._put_template(target, known)  # for the indexes that the stream goes on in
        _log.info("mapped new fields", target=target, fields=sorted(missing))


def _missing(wanted: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """What of `wanted` has no mapping."""
    found: dict[str, Any] = {}
    for name, mapped in wanted.items():
        present = known.get(name)
        if present is None:
            found[name] = mapped
        elif "properties" in mapped and "properties" in present:
            inner = _missing(mapped["properties"], present["properties"])
            if inner:
                found[name] = {"properties": inner}
    return found


def _add(known: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, mapped in more.items():
        present = known.get(name)
        if present is not None and "properties" in present and "properties" in mapped:
            present = known[name] = {**present, "properties": dict(present["properties"])}
            _add(present["properties"], mapped["properties"])
        else:
            known[name] = mapped


def _common(mappings: list[dict[str, Any]]) -> dict[str, Any]:
    """What all indexes behind a name have."""
    if not mappings:
        return {}
    first, *others = mappings
    return {name: mapped for name, mapped in first.items() if all(name in other for other in others)}
