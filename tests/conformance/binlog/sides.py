"""What the tests of MariaDB's and MySQL's connectors beside Debezium's share: the configuration of both, and the comparison of records."""

import contextlib
import json
from collections.abc import Iterable
from typing import Any

from side_by_side import Side

from tidings_capture.mysql.connector import MariaDbConnector
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_envelope.headers.as_of import HEADER as AS_OF
from tidings_envelope.headers.commit import HEADER as COMMIT
from tidings_stack.mariadb import MySqlLikeServer
from tidings_stack.waiting import wait_for

JSON = "org.apache.kafka.connect.json.JsonConverter"
_OWN_HEADERS = {"__debezium.context.runId", AS_OF, COMMIT}
"""One is each run's, the other one this connector's."""


class Sides:
    """Debezium's connector and this one, on the same tables: what each has written so far."""

    def __init__(self, side: Side, worker: MemoryWorker) -> None:
        self._side, self._worker = side, worker

    def await_both(self, topic: str, count: int, seconds: float = 60) -> None:
        """Wait until each has so many records there.

        Raises:
            AssertionError: says how many each has.
        """
        found = [0, 0]

        def are_there() -> bool:
            found[:] = map(len, self.records(topic))
            return min(found) >= count or self._worker.error is not None

        with contextlib.suppress(AssertionError):
            wait_for("both sides", are_there, seconds)
        if min(found) < count:
            raise AssertionError(
                f"{topic}: Debezium has {found[0]}, ours {found[1]} records, and not {count}"
            ) from self._worker.error

    def records(self, topic: str) -> tuple[list[Any], list[Any]]:
        """Debezium's, and ours."""
        self._side.check()
        self._side.read()
        return self._side.records[topic, 0], list(self._worker.kafka.topics.get(topic, ()))

    def differences(self, topics: Iterable[str]) -> list[str]:
        """Where they differ, once both have written all."""
        found: list[str] = []
        for topic in topics:
            theirs, ours = ([shown(*record) for record in records] for records in self.records(topic))
            if len(theirs) != len(ours):
                found.append(f"{topic}: {len(theirs)} and {len(ours)} records")
            for number, (its, own) in enumerate(zip(theirs, ours, strict=False)):
                found += differences(its, own, f"{topic}#{number}")
        return found


def shown(key: bytes | None, value: bytes | None, headers: Any) -> Any:
    """A record without what differs by its nature."""
    named = [(n, bytes(v or b"")) for n, v in headers or () if n not in _OWN_HEADERS]
    told = None if value is None else json.loads(value)
    if told is not None and "source" in told["payload"]:
        payload = told["payload"]
        for name in ("ts_ms", "ts_us", "ts_ns"):
            payload.pop(name, None)
            if payload["source"]["snapshot"] != "false":
                payload["source"].pop(name)
        if payload.get("op") == "t" and payload["source"]["connector"] == "mysql":
            # The known differences of docs/mysql.md.
            payload["transaction"] = None
            payload["source"] |= dict.fromkeys(("thread", "ts_us", "ts_ns"))
    return None if key is None else json.loads(key), told, named


def differences(theirs: Any, ours: Any, path: str) -> list[str]:
    """Where two values differ."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        names = theirs.keys() | ours.keys()
        return [d for n in sorted(names) for d in differences(theirs.get(n), ours.get(n), f"{path}.{n}")]
    if isinstance(theirs, list | tuple) and len(theirs) == len(ours):
        return [
            d
            for i, (t, o) in enumerate(zip(theirs, ours, strict=True))
            for d in differences(t, o, f"{path}[{i}]")
        ]
    return [] if theirs == ours else [f"{path}: {str(theirs)[:80]} and {str(ours)[:80]}"]


def configured(
    server: MySqlLikeServer,
    kafka_bootstrap: str,
    name: str,
    connector: str = MariaDbConnector.class_name,
    **options: str,
) -> dict[str, str]:
    """As Debezium has it: nothing is said that is its default.

    Args:
        connector: its class.
        options: with underscores for dots.
    """
    return {
        "connector.class": connector,
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "admin",
        "database.password": server.password,
        "database.server.id": "184054",
        "database.include.list": name,
        "topic.prefix": name,
        "schema.history.internal.kafka.bootstrap.servers": kafka_bootstrap,
        "schema.history.internal.kafka.topic": f"history-of-{name[1:]}",
        "key.converter": JSON,
        "value.converter": JSON,
        **{option.replace("_", "."): value for option, value in options.items()},
    }


OURS = {
    "database.server.id": "184055",
    "key.converter.schemas.enable": "true",
    "value.converter.schemas.enable": "true",
    "schema.history.internal.kafka.topic": "our-history",
}
ALONE = {"schema.history.internal.store.only.captured.databases.ddl": "true"}
"""Options of a connector on a server that has other tests' databases, too."""
