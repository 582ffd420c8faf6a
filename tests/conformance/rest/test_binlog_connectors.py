"""What the REST APIs say of the connectors of MariaDB and MySQL: their options, and configurations that are right and wrong."""

from typing import Any

import pytest
from rest_pairs.sides import Api, put
from rest_pairs.validation import LEFT_OUT_OF_BINLOGS, definitions, validated

from tidings_capture.mysql.connector import MariaDbConnector, MySqlConnector
from tidings_stack.connect import ConnectServer
from tidings_stack.mariadb import MySqlLikeServer

WRONG = {
    "tasks.max": "0",
    "topic.prefix": "a b",
    "database.port": "abc",
    "database.ssl.mode": "bad",
    "decimal.handling.mode": "bad",
    "bigint.unsigned.handling.mode": "bad",
    "snapshot.mode": "bad",
    "table.include.list": "a",
    "table.exclude.list": "b",
    "gtid.source.includes": "a",
    "gtid.source.excludes": "b",
    "heartbeat.interval.ms": "-1",
    "include.query": "maybe",
    "max.queue.size": "2048",
    "transforms": "a",
    "transforms.a.type": "nope",
}


@pytest.mark.parametrize("connector", [MariaDbConnector, MySqlConnector])
def test_definitions_and_validation(
    connector: type[MariaDbConnector],
    plugins: ConnectServer,
    worker_url: str,
    kafka_bootstrap: str,
    unique_name: str,
    request: pytest.FixtureRequest,
) -> None:
    server: MySqlLikeServer = request.getfixturevalue(connector.flavour.name)
    path = f"/connector-plugins/{connector.class_name}/config"
    sides = Api(plugins.url, f"{unique_name}a"), Api(worker_url, f"{unique_name}b")
    theirs, mine = (definitions(side, path) for side in sides)
    assert mine == theirs
    config = {
        "connector.class": connector.class_name,
        "name": "{name}",
        "tasks.max": "1",
        "topic.prefix": "p",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "admin",
        "database.password": server.password,
        "database.server.id": "184055",
        "schema.history.internal.kafka.bootstrap.servers": kafka_bootstrap,
        "schema.history.internal.kafka.topic": "history",
    }
    for changes in ({}, WRONG):
        request_ = put(f"{path}/validate", config | changes)
        theirs, mine = (without_lists(validated(side, request_, LEFT_OUT_OF_BINLOGS)) for side in sides)
        names = theirs["configs"].keys() | mine["configs"].keys()
        found = {name: (theirs["configs"].get(name), mine["configs"].get(name)) for name in names}
        assert [(name, *both) for name, both in found.items() if both[0] != both[1]] == [], changes
        assert {**mine, "configs": {}} == {**theirs, "configs": {}}


def without_lists(report: dict[str, Any]) -> dict[str, Any]:
    """The values of an option stand in another order in Debezium's errors, and are more, or fewer."""
    for told in report["configs"].values():
        told["errors"] = [text.partition("Value must be one of")[0] for text in told["errors"]]
    return report
