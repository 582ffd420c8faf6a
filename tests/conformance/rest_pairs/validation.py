"""Configurations to validate, and definitions and reports of the REST API as they are compared."""

from collections.abc import Mapping
from typing import Any

from rest_pairs.sides import Api, Request, get

WRONG = {
    "name": "",
    "tasks.max": "0",
    "config.action.reload": "bad",
    "errors.retry.delay.max.ms": "x",
    "topic.prefix": "a b",
    "database.hostname": "",
    "slot.name": "Bad-Name",
    "decimal.handling.mode": "bad",
    "time.precision.mode": "bad",
    "database.sslmode": "bad",
    "table.include.list": "a",
    "table.exclude.list": "b",
    "slot.drop.on.stop": "maybe",
    "database.port": "abc",
    "heartbeat.interval.ms": "-1",
    "snapshot.max.threads": "0",
    "notification.enabled.channels": "sink",
    "key.converter": "nope",
    "transforms": "a,b,c",
    "transforms.a.type": "nope",
    "transforms.b.type": "org.apache.kafka.connect.transforms.HoistField$Value",
}
ALSO_WRONG = {
    "slot.name": "",
    "skipped.operations": "none,c",
    "signal.data.collection": "public.a,public.b",
    "signal.poll.interval.ms": "0",
    "incremental.snapshot.chunk.size": "-1",
    "max.queue.size": "2048",
    "poll.interval.ms": "0",
    "status.update.interval.ms": "0",
    "retriable.restart.connector.wait.ms": "0",
    "snapshot.delay.ms": "-1",
    "streaming.delay.ms": "-1",
    "snapshot.fetch.size": "-1",
}
CHAIN = {
    "transforms": "a,b",
    "transforms.a.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.a.static.field": "f",
    "transforms.a.static.value": "v",
    "transforms.a.predicate": "p",
    "transforms.b.type": "io.debezium.transforms.ExtractNewRecordState",
    "predicates": "p",
    "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.p.pattern": "x",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.decimal.format": "NUMERIC",
    "skipped.operations": "none",
}
LEFT_OUT = {
    "snapshot.mode": {"custom"},
    "lsn.flush.mode": {"connector_and_driver", "manual"},
    "schema.refresh.mode": {"columns_diff_exclude_unchanged_toast"},
    "snapshot.isolation.mode": {"read_uncommitted", "read_committed"},
    "snapshot.query.mode": {"custom"},
    "snapshot.locking.mode": {"shared", "custom"},
    "event.processing.failure.handling.mode": {"warn", "ignore", "skip"},
    "guardrail.collections.limit.action": {"warn", "fail"},
    "lsn.flush.timeout.action": {"fail", "warn", "ignore"},
    "plugin.name": {"decoderbufs"},
}
"""What Debezium recommends and we do not implement, so do not recommend."""
LEFT_OUT_OF_BINLOGS = LEFT_OUT | {
    "event.deserialization.failure.handling.mode": {"warn", "ignore", "skip"},
    "inconsistent.schema.handling.mode": {"warn", "ignore", "skip"},
    "snapshot.locking.mode": {"custom", "minimal_percona", "minimal_percona_no_table_locks"},
    "time.precision.mode": {"adaptive"},
}
"""Of the connectors of MariaDB and MySQL; adaptive times are refused by Debezium's, too."""


def definitions(side: Api, path: str) -> dict[str, Any]:
    return {d["name"]: d for d in side.ask(get(path)).body if d["group"] != "TIDINGS"}


def validated(side: Api, request: Request, left_out: Mapping[str, set[str]] = LEFT_OUT) -> dict[str, Any]:
    """A report by option; each problem counted once."""
    report = side.ask(request).body
    configs = {}
    for entry in report["configs"]:
        definition, value = entry["definition"], entry["value"]
        name = value["name"]
        if definition is not None and definition["group"] == "TIDINGS":
            continue
        values = set(value["recommended_values"])
        if "." in "".join(values):
            values = {"classes" if "Con" in text or "transforms" in text else text for text in values}
        configs[name] = {
            "definition": definition,
            "value": value["value"],
            "errors": sorted(
                {
                    text
                    for text in value["errors"]
                    if "value is invalid: An integer" in text or "regex" not in text
                }
            ),
            "visible": value["visible"],
            "recommended": values - left_out.get(name, set()),
        }
    return {
        "name": report["name"],
        "groups": sorted(group for group in report["groups"] if group != "TIDINGS"),
        "configs": configs,
    }
