"""What is wrong with a cluster that documents would be written to."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tidings_connect.diagnosis import WARNING, Diagnosis
from tidings_connect.errors import ConnectError
from tidings_sinks.diagnosis import of_error
from tidings_sinks.errors import TargetError
from tidings_sinks.search import options as names
from tidings_sinks.search.client import Client
from tidings_sinks.search.settings import Settings

_WHERE: Final = f"{names.URL}, {names.USER} and {names.PASSWORD}"
_NO_RIGHT: Final = "has no right to it"
_BLOCKS: Final = ("read_only", "read_only_allow_delete", "write", "metadata")


def diagnose(settings: Settings, topics: Sequence[str]) -> Iterator[Diagnosis]:
    """See `SinkConnector.diagnose`."""
    client = Client(settings)
    try:
        client.check()
        yield from _cluster(client)
        for topic in topics:
            target = settings.target(topic)
            if target is None:
                yield Diagnosis(
                    "no-index", f"{names.RESOURCES} names nothing for topic {topic}", "its records end the connector's tasks",
                    f"add {topic}:<name> to {names.RESOURCES}",
                )  # fmt: skip
            else:
                yield from _target(client, settings, target)
    except ConnectError as error:
        yield of_error(error, _WHERE)
    finally:
        client.close()


def _cluster(client: Client) -> Iterator[Diagnosis]:
    try:
        health = client.call("GET", "/_cluster/health", "to tell its health")
    except TargetError:
        return  # not everybody may ask for it, and nothing of the sink needs it
    if health and health["status"] == "red":
        yield Diagnosis(
            "cluster-red", "the cluster is red: shards have no primary", "what is written to their indexes waits, or is refused",
            "GET /_cluster/allocation/explain says why", WARNING,
        )  # fmt: skip


def _target(client: Client, settings: Settings, target: str) -> Iterator[Diagnosis]:
    """What is wrong with an index; of one that is not there yet nobody can tell who may make it."""
    try:
        found: dict[str, Any] | None = client.call(
            "GET", f"/{target}/_mapping", f"to read the mapping of {target}"
        )
    except TargetError as error:
        yield _refused(error, target, "indices:admin/mappings/get")
        return
    if found is None:
        if settings.exists:
            yield Diagnosis(
                "no-index", f"there is no {settings.resource_kind} {target}", "the connector's tasks fail at the first record",
                f"PUT /{target}, or correct {names.RESOURCES}",
            )  # fmt: skip
        return
    blocks = (
        client.call(
            "GET",
            f"/{target}/_settings/index.blocks.*?flat_settings=true",
            f"to read the settings of {target}",
        )
        or {}
    )
    set_ = sorted(
        name
        for each in blocks.values()
        for name, value in each["settings"].items()
        if value == "true" and name.rpartition(".")[2] in _BLOCKS
    )
    if set_:
        yield Diagnosis(
            "index-blocked", f"{target} takes no writes: {', '.join(set_)}", "nothing is written: partitions rest",
            f'PUT /{target}/_settings {{"{set_[0]}": null}}; free space on the disks, if the cluster has set it',
        )  # fmt: skip
    if settings.streams or len(found) != 1:
        return
    try:
        # Of a document that is not there, so that nothing is written.
        client.call("POST", f"/{target}/_update/tidings-doctor", f"to write to {target}", {"doc": {}})
    except TargetError as error:
        if not set_:
            yield _refused(error, target, "indices:data/write/*")


def _refused(error: TargetError, target: str, right: str) -> Diagnosis:
    if _NO_RIGHT not in str(error):
        return of_error(error, _WHERE)
    return Diagnosis(
        "no-right", str(error), "the connector's tasks fail",
        f"give the user's role {right} on {target} (docs/search.md names all that is needed)",
    )  # fmt: skip
