"""What is wrong with a MongoDB that documents would be written to."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tidings_connect.diagnosis import Diagnosis
from tidings_connect.errors import ConnectError
from tidings_sinks.diagnosis import of_error
from tidings_sinks.errors import TargetError
from tidings_sinks.mongo import options as names
from tidings_sinks.mongo.client import Client
from tidings_sinks.mongo.settings import Settings

_WRITES: Final = ("find", "insert", "update", "remove")
_FAIL: Final = "the connector's tasks fail"


def diagnose(settings: Settings, topics: Sequence[str]) -> Iterator[Diagnosis]:
    """See `SinkConnector.diagnose`."""
    try:
        client = Client(settings)
    except ConnectError as error:
        yield of_error(error, names.URI)
        return
    try:
        client.check()
        if not client.takes_writes():
            yield Diagnosis(
                "read-only", "the server is not a primary", "nothing is written: partitions rest",
                f"name the replica set in {names.URI} (replicaSet=...), without directConnection=true",
            )  # fmt: skip
        yield from _rights(client, settings, topics)
    except ConnectError as error:
        yield of_error(error, names.URI)
    finally:
        client.close()


def _rights(client: Client, settings: Settings, topics: Sequence[str]) -> Iterator[Diagnosis]:
    """What the user lacks, where the server tells its rights."""
    try:
        told = client.command("connectionStatus", showPrivileges=True)["authInfo"]
    except (TargetError, KeyError):
        return  # a server of MongoDB's protocol that does not know the question
    if not told.get("authenticatedUsers"):
        return  # nobody logs in to it
    for database in sorted({settings.of(topic).database for topic in topics}):
        allowed = {
            action
            for each in told.get("authenticatedUserPrivileges", ())
            if _is_of(each["resource"], database)
            for action in each["actions"]
        }
        lacking = [each for each in _WRITES if each not in allowed and "anyAction" not in allowed]
        if lacking:
            users = ", ".join(f"{user['user']} of {user['db']}" for user in told["authenticatedUsers"])
            yield Diagnosis(
                "no-right", f"user {users} lacks {', '.join(lacking)} on database {database}", _FAIL,
                f'db.grantRolesToUser(..., [{{role: "readWrite", db: "{database}"}}])',
            )  # fmt: skip


def _is_of(resource: dict[str, Any], database: str) -> bool:
    """Whether rights on a resource are rights on all collections of a database."""
    return bool(resource.get("anyResource")) or (
        resource.get("db") in {"", database} and resource.get("collection") == ""
    )
