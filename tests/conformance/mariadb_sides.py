"""What the tests of MariaDB's connector beside Debezium's share: the configuration of both, and the comparison of records."""

import json
from typing import Any

from tidings_capture.mysql.connector import MariaDbConnector
from tidings_stack.mariadb import MariaDbServer

JSON = "org.apache.kafka.connect.json.JsonConverter"


def shown(key: bytes | None, value: bytes | None, headers: Any) -> Any:
    """A record without what differs by its nature."""
    named = [(n, bytes(v or b"")) for n, v in headers or () if n != "__debezium.context.runId"]
    told = None if value is None else json.loads(value)
    if told is not None and "source" in told["payload"]:
        payload = told["payload"]
        for name in ("ts_ms", "ts_us", "ts_ns"):
            payload.pop(name, None)
            if payload["source"]["snapshot"] != "false":
                payload["source"].pop(name)
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


def configured(mariadb: MariaDbServer, kafka_bootstrap: str, name: str, **options: str) -> dict[str, str]:
    """As Debezium has it: nothing is said that is its default."""
    return {
        "connector.class": MariaDbConnector.class_name,
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(mariadb.port),
        "database.user": "admin",
        "database.password": mariadb.password,
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
