"""Random options of a sink, and a random stream of records for it: envelopes or flat rows, with schemas that change.

A stream asks for nothing that the options forbid (an insert of a key that is there), since a task that fails compares nothing.
"""

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from jdbc_sinks.values import BY_NAME, KEYS, VALUES, Values, decimal

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
Sent = tuple[str, bytes | None, bytes | None]
"""A record: topic, key, value."""


@dataclass
class Column:
    """A column at the source."""

    name: str
    values: Values
    optional: bool = True
    default: Any = None

    @property
    def schema(self) -> dict[str, Any]:
        """Its field's."""
        found = {**self.values.schema, "optional": self.optional, "field": self.name}
        return found if self.default is None else {**found, "default": self.default}


@dataclass
class Table:
    """A table at the source, and the topic of its changes."""

    topic: str
    keys: list[Column]
    columns: list[Column]
    rows: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.topic.rpartition(".")[2]


@dataclass
class Case:
    """What both sinks are given."""

    seed: int
    options: dict[str, str]
    tables: list[Table]
    records: list[Sent]


def struct(columns: list[Column], name: str, *, optional: bool = False) -> dict[str, Any]:
    """The schema of rows."""
    return {"type": "struct", "name": name, "optional": optional, "fields": [c.schema for c in columns]}


def _text(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}, ensure_ascii=False).encode()


_SOURCE: Final = {
    "type": "struct", "name": "io.debezium.connector.postgresql.Source", "optional": False,
    "fields": [
        {"type": "int64" if name == "ts_ms" else "string", "optional": False, "field": name}
        for name in ("version", "connector", "name", "ts_ms", "db", "schema", "table")
    ],
}  # fmt: skip


def key_of(table: Table, row: dict[str, Any]) -> bytes:
    """A record's key."""
    names = [column.name for column in table.keys]
    return _text(struct(table.keys, f"{table.topic}.Key"), {name: row[name] for name in names})


def envelope(table: Table, op: str, before: Any, after: Any) -> bytes:
    """A record's value, as a source writes it."""
    row = struct([*table.keys, *table.columns], f"{table.topic}.Value", optional=True)
    schema = {
        "type": "struct", "name": f"{table.topic}.Envelope", "optional": False, "version": 2,
        "fields": [
            {**row, "field": "before"}, {**row, "field": "after"}, {**_SOURCE, "field": "source"},
            {"type": "string", "optional": False, "field": "op"}, {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
    }  # fmt: skip
    source = {"version": "3.7.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1_767_323_045_678,
              "db": "shop", "schema": "public", "table": table.name}  # fmt: skip
    return _text(
        schema, {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1_767_323_045_700}
    )


def flat(table: Table, row: dict[str, Any]) -> bytes:
    """A row as a record's value."""
    return _text(struct([*table.keys, *table.columns], f"{table.topic}.Value"), row)


class Stream:
    """Writes a case.

    Args:
        topics: what the topics' names begin with; both sinks read the same ones.
    """

    def __init__(self, seed: int, topics: str) -> None:
        self._random = Random(seed)
        self._prefix = topics
        self.options = self._options()
        self.flat = self._random.random() < 0.3 and "source" not in self.options.get(
            "collection.name.format", ""
        )
        self.tables = [self._table(number) for number in range(self._random.choice([1, 1, 2]))]
        self._choose_fields()
        self.records: list[Sent] = []
        self._last = 0

    def case(self, seed: int, count: int) -> Case:
        """The stream of so many changes."""
        for _ in range(count):
            self._change(self._random.choice(self.tables))
        return Case(seed, self.options, self.tables, self.records)

    def _options(self) -> dict[str, str]:
        chance = self._random
        mode = chance.choice(["upsert"] * 5 + ["insert", "insert", "update"])
        if mode == "insert":
            keys = chance.choice(["none", "kafka", "record_key", "record_value"])
        else:
            keys = chance.choice(["record_key"] * 4 + ["record_value", "kafka"])
        found = {"insert.mode": mode, "primary.key.mode": keys, "schema.evolution": "basic"}
        if keys == "record_key":
            found["delete.enabled"] = chance.choice(["true", "true", "false"])
        if chance.random() < 0.5:
            found["truncate.enabled"] = "true"
        if chance.random() < 0.3:
            found["quote.identifiers"] = "true"
        if chance.random() < 0.5:
            found["batch.size"] = chance.choice(["1", "2", "7"])
        if chance.random() < 0.5:
            found["collection.name.format"] = chance.choice(
                ["t_${topic}", "Mixed_${topic}", "public.${topic}", "${source.schema}.of_${source.table}"]
            )
        if chance.random() < 0.3:
            found["use.time.zone"] = chance.choice(["Europe/Helsinki", "America/New_York"])
        return found

    def _table(self, number: int) -> Table:
        chance = self._random
        kinds = chance.sample(KEYS, chance.choice([1, 1, 2]))
        keys = [Column(f"k{place}", BY_NAME[kind], optional=False) for place, kind in enumerate(kinds)]
        if all(kind == "boolean" for kind in kinds):
            keys.append(Column("k9", BY_NAME["int64"], optional=False))
        chosen = chance.sample(VALUES, chance.randrange(1, 9))
        return Table(f"{self._prefix}.public.t{number}", keys, [self._column(values) for values in chosen])

    def _column(self, values: Values) -> Column:
        chance = self._random
        name = f"c_{values.name}" if chance.random() < 0.8 else f"Camel{values.name.title().replace('_', '')}"
        column = Column(name, values, optional=chance.random() < 0.7)
        if values.default is not None and chance.random() < 0.3:
            column.default = values.default
        return column

    def _choose_fields(self) -> None:
        chance, options = self._random, self.options
        if options["primary.key.mode"] == "record_value":
            self.tables = self.tables[:1]
            options["primary.key.fields"] = ",".join(column.name for column in self.tables[0].keys)
        elif chance.random() < 0.2:
            # A field that is there in each record, or the tables would be without columns.
            column = chance.choice(self.tables[0].columns)
            if column.optional or options["insert.mode"] != "insert":
                options["field.exclude.list"] = f"{self.tables[0].topic}:{column.name}"

    def _value(self, column: Column) -> Any:
        if column.optional and self._random.random() < 0.2:
            return None
        return self._random.choice(column.values.values)

    def _row(self, table: Table) -> dict[str, Any]:
        return {column.name: self._value(column) for column in (*table.keys, *table.columns)}

    def _new_row(self, table: Table) -> dict[str, Any]:
        """A row whose key is not there; a new one each time where a second one of a key would be refused."""
        row = self._row(table)
        if self.options["insert.mode"] == "insert" and self.options["primary.key.mode"] in {
            "record_key",
            "record_value",
        }:
            self._last += 1
            for column in table.keys:
                if column.values.name in {"int16", "int32", "int64", "date"}:
                    row[column.name] = self._last
                elif column.values.name == "string":
                    row[column.name] = f"key {self._last}"
                elif column.values.name == "uuid":
                    row[column.name] = f"00000000-0000-0000-0000-{self._last:012d}"
                elif column.values.name == "decimal":
                    row[column.name] = decimal(self._last)
        return row

    def _change(self, table: Table) -> None:
        chance = self._random
        inserts_once = self.options["insert.mode"] == "insert" and self.options["primary.key.mode"] in {
            "record_key",
            "record_value",
        }
        what = "i" if inserts_once else chance.choice("iiiiuuuukddtse")
        if inserts_once and chance.random() < 0.1:
            what = "e"
        if what == "e" and self.options["primary.key.mode"] == "kafka":
            return  # Debezium adds no column then
        if what == "e":
            self._evolve(table)
            return
        # On a table that is not there yet, a TRUNCATE ends Debezium's task: it has no key to make the table with.
        written = any(topic == table.topic for topic, _, _ in self.records)
        if what == "t" and not self.flat and written and chance.random() < 0.4:
            self.records.append((table.topic, None, envelope(table, "t", None, None)))
            table.rows.clear()
            return
        known = list(table.rows)
        if what in "ukd" and known:
            mark = chance.choice(known)
            before = self._completed(table, table.rows[mark])
            if what == "d":
                self._delete(table, before)
            elif what == "u":
                after = {**self._row(table), **{column.name: before[column.name] for column in table.keys}}
                self._write(table, "u", before, after)
            else:
                self._delete(table, before)
                self._write(table, "c", None, self._new_row(table))
            return
        row = self._new_row(table)
        there = self._mark(table, row) in table.rows
        self._write(table, "u" if there else chance.choice("crc"), row if there else None, row)

    def _completed(self, table: Table, row: dict[str, Any]) -> dict[str, Any]:
        """A row of before a change of the columns, as it is after it."""
        return {
            column.name: row.get(column.name, self._value(column)) if column.optional or row.get(column.name) is not None
            else column.values.values[0]
            for column in (*table.keys, *table.columns)
        }  # fmt: skip

    def _mark(self, table: Table, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[column.name] for column in table.keys)

    def _write(self, table: Table, op: str, before: Any, after: dict[str, Any]) -> None:
        value = flat(table, after) if self.flat else envelope(table, op, before, after)
        self.records.append((table.topic, key_of(table, after), value))
        table.rows[self._mark(table, after)] = after

    def _delete(self, table: Table, before: dict[str, Any]) -> None:
        key = key_of(table, before)
        if not self.flat:
            self.records.append((table.topic, key, envelope(table, "d", before, None)))
        if self.flat or self._random.random() < 0.9:
            self.records.append((table.topic, key, None))
        table.rows.pop(self._mark(table, before), None)

    def _evolve(self, table: Table) -> None:
        chance = self._random
        if chance.random() < 0.6 or len(table.columns) < 2:
            taken = {column.name.lower() for column in table.columns}
            values = chance.choice(VALUES)
            column = Column(f"added_{len(taken)}_{values.name}", values)
            if values.default is not None and chance.random() < 0.3:
                column.default = values.default
            if column.name not in taken:
                table.columns.append(column)
        else:
            optional = [column for column in table.columns if column.optional]
            if optional:
                table.columns.remove(chance.choice(optional))
