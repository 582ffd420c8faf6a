"""Random options of a connector, for tables that are known."""

import re
from random import Random

from differential.tables import Column, Table

from tidings_stack.connect import avro_converter_settings

JSON = "org.apache.kafka.connect.json.JsonConverter"
ODDS = {
    "decimal.handling.mode": ["precise", "double", "string"],
    "time.precision.mode": ["adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds", "structured"],
    "binary.handling.mode": ["bytes", "base64", "base64-url-safe", "hex"],
    "interval.handling.mode": ["numeric", "string"],
    "hstore.handling.mode": ["json", "map"],
    "include.unknown.datatypes": ["true", "false"],
    "money.fraction.digits": ["0", "3"],
    "schema.name.adjustment.mode": ["none", "avro", "avro_unicode"],
    "field.name.adjustment.mode": ["none", "avro", "avro_unicode"],
    "event.converting.failure.handling.mode": ["warn", "skip"],
    "tombstones.on.delete": ["true", "false"],
    "provide.transaction.metadata": ["true", "false"],
    "skip.messages.without.change": ["true", "false"],
    "extended.headers.enabled": ["true", "false"],
    "unavailable.value.placeholder": ["n/a", "hex:00ff"],
    "topic.delimiter": ["_", "-"],
    "topic.transaction": ["tx"],
    "publication.autocreate.mode": ["all_tables", "filtered"],
    "publish.via.partition.root": ["true", "false"],
    "skipped.operations": ["none", "t", "u", "d", "c", "u,d,t"],
    "heartbeat.interval.ms": ["100"],
    "topic.heartbeat.prefix": ["__beat"],
    "schema.exclude.list": ["other", "Odd.*"],
    "include.schema.comments": ["true"],
    "topic.naming.strategy": ["io.debezium.schema.SchemaUnicodeTopicNamingStrategy", "io.debezium.schema.SchemaTopicNamingStrategy", "io.debezium.schema.DefaultTopicNamingStrategy", "io.debezium.schema.DefaultUnicodeTopicNamingStrategy"],
    "message.prefix.include.list": ["told.*"],
    "message.prefix.exclude.list": ["quiet"],
}  # fmt: skip


def converters(rng: Random, registry: str) -> dict[str, str]:
    """One of the three formats, for keys and values."""
    dice = rng.random()
    if dice < 0.3:
        return avro_converter_settings(registry, key=rng.random() < 0.8) | {
            "schema.name.adjustment.mode": "avro"
        }
    found = {f"{side}.converter": JSON for side in ("key", "value")}
    found |= {
        f"{side}.converter.schemas.enable": "true" if rng.random() < 0.6 else "false"
        for side in ("key", "value")
    }
    if rng.random() < 0.3:
        found["value.converter.decimal.format"] = "NUMERIC"
    if rng.random() < 0.3:
        found["value.converter.replace.null.with.default"] = "false"
    return found


def choose(rng: Random) -> dict[str, str]:
    """Options that need no table."""
    found = {name: rng.choice(values) for name, values in ODDS.items() if rng.random() < 0.3}
    if {"message.prefix.include.list", "message.prefix.exclude.list"} <= found.keys():
        del found["message.prefix.exclude.list"]
    if "skipped.operations" in found and found.get("publication.autocreate.mode") == "filtered":
        del found["publication.autocreate.mode"]  # may end Debezium's task with an error of syntax
    found["snapshot.mode"] = rng.choice(["no_data"] * 4 + ["initial", "initial", "always", "when_needed"])
    return found


def expression(rng: Random, table: Table, column: Column | None = None) -> str:
    """An expression for a table or a column, more or less exact."""
    parts = [table.schema, table.name, *([column.name] if column else [])]
    escaped = [re.escape(part).replace(r"\ ", "[ ]") for part in parts]
    if column is not None and rng.random() < 0.2:
        escaped[2] = re.escape(column.name[:1]) + ".*"
    return r"\.".join(escaped)


def overrides(rng: Random, tables: list[Table]) -> dict[str, str]:
    """Statements that read tables' snapshots. Names with blanks, dots or quotes are Debezium's own matter."""
    fit = [t for t in tables if t.schema.isidentifier() and t.name.isidentifier() and t.name.isascii()]
    chosen = rng.sample(fit, min(2, len(fit)))
    if not chosen:
        return {}
    name = "snapshot.select.statement.overrides"
    return {name: ",".join(f"{t.schema}.{t.name}" for t in chosen)} | {
        f"{name}.{t.schema}.{t.name}": f"SELECT * FROM {t.sql} WHERE id % 2 = 0 ORDER BY id DESC"
        for t in chosen
    }


def of_tables(
    rng: Random, tables: list[Table], *, chained: bool, streamed: bool = True, described: bool = True
) -> dict[str, str]:
    """Options that name tables and columns. Where a chain follows, no columns are left out.

    Args:
        streamed: whether there is no snapshot.
        described: whether columns may be described by their types in the source.
    """
    found: dict[str, str] = {}
    if rng.random() < 0.3 and len(tables) > 2:
        name = rng.choice(["table.include.list", "table.exclude.list"])
        chosen = rng.sample(tables, len(tables) - 2 if name == "table.include.list" else 2)
        found[name] = ",".join(expression(rng, table) + "(_p\\d)?" for table in chosen)
    if not streamed and rng.random() < 0.3:
        found |= overrides(rng, tables)
    columns = [(table, column) for table in tables for column in table.columns if column.name != "id"]

    def some_columns(count: int) -> str:
        chosen = rng.sample(columns, min(count, len(columns)))
        return ",".join(expression(rng, *pair) for pair in chosen)

    if not columns:
        return found
    dice = rng.random()
    if dice < 0.2 and not chained:
        found["column.exclude.list"] = some_columns(3)
    elif dice < 0.27 and not chained:
        found["column.include.list"] = ".*id," + some_columns(len(columns) - 8)
    rules: list[str] = []
    if rng.random() < 0.3:
        rules.append(f"column.mask.with.{rng.choice([0, 3, 12])}.chars")
    if described and rng.random() < 0.3:
        rules.append(f"column.truncate.to.{rng.choice([1, 5])}.chars")
    if rng.random() < 0.3:
        version, algorithm = rng.choice(["", "v2."]), rng.choice(["SHA-256", "MD5", "SHA-512"])
        rules.append(f"column.mask.hash.{version}{algorithm}.with.salt.s{rng.randrange(100)}")
    elif described and rng.random() < 0.4:  # a column that is both is a wanted difference
        rules.append("column.propagate.source.type")
    found |= {rule: some_columns(4) for rule in rules}
    if described and rng.random() < 0.25 and not any("hash" in rule for rule in rules):
        kinds = [
            r"pg_catalog\.int4",
            r".*\.numeric",
            r".*\.varchar",
            r".*\._text",
            r".*\.timestamp.*",
            r".*\.domain.*",
            r".*\.mood.*",
        ]
        found["datatype.propagate.source.type"] = ",".join(rf".*{kind}" for kind in rng.sample(kinds, 3))
    if rng.random() < 0.25:
        fit = [(t, c) for t, c in columns if c.keyed and c.name.isidentifier()]
        keys = {}
        for table, column in rng.sample(fit, min(3, len(fit))):
            names = [column.name, *(["id"] if rng.random() < 0.4 else [])]
            keys[table.name] = f"{expression(rng, table)}:{','.join(names)}"
        if keys:
            found["message.key.columns"] = ";".join(keys.values())
    return found
