"""`tidings doctor` on sinks of documents in MongoDB. Neither server of the tests has rights; what a server tells of them is given here
in the form of MongoDB's documentation."""

from typing import Any

import pytest
from diagnosing import Diagnose

from tidings_sinks.mongo.client import Client
from tidings_stack.mongo import MongoServer


def test_what_is_wrong_with_a_server(
    mongo: MongoServer, diagnose: Diagnose, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {
        "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
        "connection.uri": mongo.url,
        "database": "shop",
    }
    assert diagnose(config) == {}
    away = "mongodb://u:secret-word@127.0.0.1:1/?serverSelectionTimeoutMS=300"
    assert set(diagnose(config | {"connection.uri": away})) == {"unreachable"}
    actions = ["find", "insert"]
    asked = Client.command

    def command(client: Client, name: str, **more: Any) -> dict[str, Any]:
        if name != "connectionStatus":
            return asked(client, name, **more)
        resource = {"db": "shop", "collection": ""}
        rights = [
            {"resource": resource, "actions": actions},
            {"resource": {"db": "other", "collection": ""}, "actions": ["update"]},
        ]
        return {
            "authInfo": {
                "authenticatedUsers": [{"user": "sink", "db": "admin"}],
                "authenticatedUserPrivileges": rights,
            }
        }

    monkeypatch.setattr(Client, "command", command)
    found = diagnose(config)
    assert set(found) == {"no-right"}
    assert "user sink of admin lacks update, remove on database shop" in found["no-right"]
    actions += ["update", "remove"]
    assert diagnose(config) == {}
