"""What a connector has come to: ``/connectors/{name}/topics`` (KIP-558) and ``/connectors/{name}/offsets`` (KIP-875)."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from tidings_connect.config.plugins import connector_of, kind_of
from tidings_connect.config.sink_options import CONSUMER_OVERRIDE, consumer_overrides, sink_group
from tidings_connect.data.subscription import TopicPartition
from tidings_connect.herder.herder import Herder
from tidings_connect.herder.remote_task import ConnectorView
from tidings_connect.kafka.group_offsets import GroupOffsets, understood
from tidings_connect.kafka.settings import translate_client_settings
from tidings_connect.rest.answers import json_answer
from tidings_connect.rest.errors import BadRequestError, ForbiddenError, MalformedBodyError
from tidings_connect.rest.routing import Handlers, read_body
from tidings_connect.storage.offsets import ConnectorOffsets, Offset, Partition
from tidings_connect.threads import OFFSETS

_LOGIN: Final = ("sasl.", "ssl.", "security.", "https.")
"""What librdkafka's settings about a login begin with; a consumer's other settings are none of an admin client's."""
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


def modified(done: str, *, alone: bool = False) -> str:
    """What is answered when offsets were ``altered`` or ``reset``.

    Args:
        alone: the connector has said that no others count (`Connector.check_offsets`).
    """
    if alone:
        return f"The offsets for this connector have been {done} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {done} successfully. However, if this "
        f"connector manages offsets externally, they will need to be manually {done} in the system that the connector "
        "uses."
    )


def positions_endpoints(supervisor: Herder) -> dict[str, Handlers]:
    """The handlers, by path."""
    api = _PositionsApi(supervisor)
    return {
        "/connectors/{name}/topics": {"GET": api.topics},
        "/connectors/{name}/topics/reset": {"PUT": api.reset_topics},
        "/connectors/{name}/offsets": {
            "GET": api.offsets,
            "PATCH": api.alter_offsets,
            "DELETE": api.reset_offsets,
        },
    }


class _PositionsApi:
    def __init__(self, supervisor: Herder) -> None:
        self._supervisor = supervisor

    async def topics(self, request: web.Request) -> web.Response:
        self._require_tracking()
        name = request.match_info["name"]
        return json_answer({name: {"topics": await self._supervisor.topics_of(name)}})

    async def reset_topics(self, request: web.Request) -> web.Response:
        self._require_tracking()
        if not self._supervisor.worker.topic_tracking_reset:
            raise ForbiddenError("Topic tracking reset is disabled.")
        await self._supervisor.reset_topics(request.match_info["name"])
        return web.Response(status=202)

    def _require_tracking(self) -> None:
        if not self._supervisor.worker.topic_tracking:
            raise ForbiddenError("Topic tracking is disabled.")

    async def offsets(self, request: web.Request) -> web.Response:
        offsets = self._offsets_of(self._supervisor.run_of(request.match_info["name"]))
        found: list[tuple[Partition, Offset]] = await OFFSETS.run(offsets.read)
        return json_answer(
            {"offsets": [{"partition": partition, "offset": offset} for partition, offset in found]}
        )

    async def alter_offsets(self, request: web.Request) -> web.Response:
        offsets = await read_offsets(request)
        name = request.match_info["name"]
        async with self._supervisor.stopped(name):
            alone = await OFFSETS.run(self._offsets_of(self._supervisor.run_of(name)).alter, offsets)
        return json_answer({"message": modified("altered", alone=alone)})

    async def reset_offsets(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        async with self._supervisor.stopped(name):
            alone = await OFFSETS.run(self._offsets_of(self._supervisor.run_of(name)).reset)
        return json_answer({"message": modified("reset", alone=alone)})

    def _offsets_of(self, run: ConnectorView) -> "_SourceOffsets | _SinkOffsets":
        """Where a connector's offsets stand: a source's in the worker's topic, a sink's with its consumer group."""
        if kind_of(run.config) != "sink":
            return _SourceOffsets(self._supervisor.offsets, run.name, run.config)
        config = self._supervisor.resolved(run.config)
        worker = self._supervisor.worker
        # The group may be closed to the worker: it is asked with the rights that the sink reads with.
        own = translate_client_settings(consumer_overrides(config), CONSUMER_OVERRIDE)
        login = {name: value for name, value in own.items() if name.startswith(_LOGIN)}
        client = {**worker.common_client(), **worker.admin, **login}
        group = GroupOffsets(client, sink_group(run.name, config))
        return _SinkOffsets(run.name, config, group)


class _SinkOffsets:
    """The offsets of one sink: its group's, and the positions that it may keep in its own system."""

    def __init__(self, connector: str, config: Mapping[str, str], group: GroupOffsets) -> None:
        self._connector, self._config, self._group = connector, config, group

    def read(self) -> list[tuple[dict[str, Any] | None, dict[str, Any]]]:
        return self._group.read()

    def alter(self, offsets: list[tuple[Partition, Offset | None]]) -> bool:
        wanted = {TopicPartition(*place): offset for place, offset in understood(offsets).items()}
        alone = _check(self._config, offsets)
        self._tell(wanted)
        self._group.alter(offsets)
        return alone

    def reset(self) -> bool:
        alone = _check(self._config, [])
        self._tell(None)
        self._group.reset()
        return alone

    def _tell(self, offsets: Mapping[TopicPartition, int | None] | None) -> None:
        found = connector_of(self._config)
        if found is not None:
            found.offsets_changed(self._connector, self._config, offsets)


class _SourceOffsets:
    """The offsets of one source connector."""

    def __init__(self, offsets: ConnectorOffsets, connector: str, config: Mapping[str, str]) -> None:
        self._offsets, self._connector, self._config = offsets, connector, config

    def read(self) -> list[tuple[Partition, Offset]]:
        return self._offsets.read(self._connector)

    def alter(self, offsets: list[tuple[Partition, Offset | None]]) -> bool:
        alone = _check(self._config, offsets)
        self._offsets.alter(self._connector, offsets)
        return alone

    def reset(self) -> bool:
        alone = _check(self._config, [(partition, None) for partition, _offset in self.read()])
        self._offsets.reset(self._connector)
        return alone


def _check(config: Mapping[str, str], offsets: list[tuple[Partition, Offset | None]]) -> bool:
    found = connector_of(config)
    return found is not None and found.check_offsets(config, offsets)
