"""What people and programs write: properties files, connectors' and workers' settings, signals."""

import contextlib
import re
from random import Random
from typing import Any

import orjson
from structlog.testing import capture_logs

from fuzzing.making import json_value, mutated, text
from fuzzing.running import CANARY, said
from tidings_capture.cdc.incremental.requests import wanted_keys
from tidings_capture.cdc.signals.channels import condition_for, signal_of_json, signal_of_row, table_pattern
from tidings_capture.cdc.sql_fragment import enclosed_mariadb
from tidings_capture.postgres.settings.config import read_connector_config
from tidings_capture.postgres.settings.option_table import OPTIONS
from tidings_capture.postgres.settings.options import check_options
from tidings_connect.config.validation import masked, require_connector_class
from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.errors import ConnectError
from tidings_connect.java.properties import parse_properties
from tidings_service import TidingsError

_SAMPLE = b"""# a worker's
bootstrap.servers=localhost:9092\\ngroup.id : x
listeners http://localhost:8083
long=a\\\\
   b\\\\u0041\\\\t
config.providers=file
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="%s";
""" % CANARY.encode()
_JAAS = "sasl.jaas.config"
_BASE = {
    "name": "shop",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "database.hostname": "localhost",
    "database.user": "capture",
    "database.password": CANARY,
    "database.dbname": "shop",
    "topic.prefix": "shop",
}
_SECRET = ("producer.override.sasl.jaas.config", "signal.consumer.sasl.jaas.config", "database.sslpassword",
           "value.converter.basic.auth.user.info")  # fmt: skip
_MORE = ("transforms", "predicates", "transforms.a.type", "transforms.a.regex", "transforms.a.predicate", "predicates.p.type",
         "column.mask.with.5.chars", "column.truncate.to.x.chars", "column.mask.hash.SHA-256.with.salt.s", "topic.creation.groups",
         "topic.creation.default.partitions", "snapshot.select.statement.overrides", "value.converter", "tasks.max",
         "tidings.wal.guard.drop", "key.converter.schemas.enable", "producer.override.linger.ms")  # fmt: skip
_NAMES = (*OPTIONS, *_MORE)
_WORKER = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "listeners": "http://localhost:0",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
_WORKER_NAMES = (*_WORKER, "config.providers", "config.providers.file.class", "rest.extension.classes", "security.protocol",
                 "sasl.mechanism", "offset.flush.interval.ms", "response.http.headers.config", "rest.advertised.listener",
                 "connector.client.config.override.policy", "exactly.once.source.support", "admin.listeners", "producer.acks",
                 "topic.creation.enable", "task.shutdown.graceful.timeout.ms", "access.control.allow.origin")  # fmt: skip


def properties(rng: Random) -> None:
    """A properties file, and a worker made of it."""
    try:
        found = parse_properties(mutated(rng, _SAMPLE).decode("latin-1"))
    except ValueError as error:
        said(error)
        return
    # A line that has lost its end is another option's value, which may be said.
    found = {name: value if name == _JAAS else value.replace(CANARY, "x") for name, value in found.items()}
    if not any(CANARY in name for name in found):
        _read(found)


def workers(rng: Random) -> None:
    """A worker's settings."""
    config = dict(_WORKER) | {"sasl.jaas.config": f'x required username="u" password="{CANARY}";'}
    for _ in range(rng.randrange(1, 4)):
        config[rng.choice(_WORKER_NAMES) if rng.random() < 0.9 else text(rng)] = text(rng)
    _read(config)


def _read(config: dict[str, str]) -> None:
    try:
        read_worker_config(config)
    except TidingsError as error:
        said(f"{error} {error.hint}")


def connectors(rng: Random) -> None:
    """A connector's settings."""
    config = dict(_BASE)
    for _ in range(rng.randrange(1, 5)):
        config[rng.choice(_NAMES) if rng.random() < 0.9 else text(rng)] = text(rng)
    if rng.random() < 0.3:
        config[rng.choice(_SECRET)] = f'x required username="u" password="{CANARY}";'
    if rng.random() < 0.1:
        del config[rng.choice(list(config))]
    said(check_options(config))
    said(masked(config) if "database.password" in config else "")
    with contextlib.suppress(ConnectError):
        require_connector_class(config)
    try:
        read_connector_config("shop", config, {}, "run")
    except TidingsError as error:
        said(f"{error} {error.hint}")


_TYPES = (
    "execute-snapshot",
    "stop-snapshot",
    "pause-snapshot",
    "resume-snapshot",
    "log",
    "find-deleted-rows",
    "repair-rows",
    "x",
)


def signals(rng: Random) -> None:
    """Signals in all their forms."""
    data = {
        "data-collections": rng.choice(([text(rng)], [], json_value(rng))),
        "additional-conditions": rng.choice(([{"data-collection": text(rng), "filter": text(rng)}], json_value(rng))),
        "type": rng.choice(("incremental", "blocking", text(rng))),
        "data-collection": rng.choice(("public.a", json_value(rng))),
        "keys": rng.choice(([{"id": text(rng)}], json_value(rng))),
        "password": CANARY,
    }  # fmt: skip
    whole = {
        "id": text(rng),
        "type": rng.choice(_TYPES),
        "data": data if rng.random() < 0.8 else json_value(rng),
    }
    with capture_logs() as logs:
        raw = orjson.dumps(whole, default=str) if _fits(whole) else b"{}"
        cells = [_bytes(rng, whole["id"]), _bytes(rng, whole["type"]), mutated(rng, raw)]
        for signal in (signal_of_json(mutated(rng, raw)), signal_of_json(raw), _of_row(cells)):
            if signal is None:
                continue
            signal.text("message")
            for name in signal.names() or []:
                with contextlib.suppress(ConnectError):
                    table_pattern(name, re.IGNORECASE).fullmatch("public.a_table_of_many_letters")
            with contextlib.suppress(ConnectError):
                wanted_keys(signal)
            with contextlib.suppress(ConnectError):
                condition_for(signal, "public.a")
            with contextlib.suppress(ConnectError):
                condition_for(signal, "public.a", enclosed_mariadb)
    said(logs)


def _fits(value: object) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def _of_row(cells: Any) -> Any:
    try:
        return signal_of_row(cells)
    except UnicodeDecodeError:
        return None  # PostgreSQL gives no such cells


def _bytes(rng: Random, given: object) -> bytes | None:
    return None if rng.random() < 0.1 else str(given).encode("utf-8", "replace")
