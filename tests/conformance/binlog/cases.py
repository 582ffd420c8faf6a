"""Random tables of MariaDB or MySQL, changes and definitions on them, and options of a connector that reads them: its records beside
those of Debezium's."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from binlog.kinds import KNOWN, NOT_PARSED
from binlog.options import Compared
from mariadb_parts import EVERY_TYPE
from mariadb_values import EDGES

_TYPES: Final = {
    name: kind.strip()
    for name, kind in re.findall(
        r"(\w+) ((?:\((?:'[^']*'|[^')])*\)|[^,()])+)", EVERY_TYPE.split("(", 1)[1].rsplit(")", 1)[0]
    )
    if set(EDGES.get(name, ())) - set(KNOWN.get(name, ())) and name not in NOT_PARSED
}
"""By column of `mariadb_values.EDGES`."""
_VALUES: Final = {
    name: [value for value in EDGES[name] if value not in KNOWN.get(name, ())] for name in _TYPES
}
_DEFAULTS: Final = {
    "i": "7", "bi": "-5", "biu": "9", "de": "1.50", "vc": "'x'", "c": "'ab'", "e": "'a'", "s": "'x'", "dt": "'2020-01-02 03:04:05'",
    "dt6": "'2020-01-02 03:04:05.6'", "da": "'2020-01-02'", "tm": "'01:02:03'", "d": "1.5", "b5": "b'101'", "tiu": "3",
}  # fmt: skip
_MAY_BE_NULL: Final = {"y", "ts", "ts3", "ts6", "js", "g", "p"}
"""A server makes values of nothing for others that take no null; of a YEAR one that Debezium reads otherwise."""
_OTHERWISE: Final = {
    "bo",
    "js",
    "ti",
    "tiu",
    "si",
    "siu",
    "mi",
    "miu",
    "i",
    "iu",
    "bi",
    "biu",
    "y",
    "nu",
    "last",
}
"""Added by a definition, Debezium has them as the statement does (BOOLEAN, JSON, NUMERIC, INT without a width), not as the server."""
_OPTIONS: Final = {
    "decimal.handling.mode": ("precise", "string", "double"),
    "bigint.unsigned.handling.mode": ("long", "precise"),
    "binary.handling.mode": ("bytes", "base64", "base64-url-safe", "hex"),
    "time.precision.mode": ("adaptive_time_microseconds", "connect", "isostring", "microseconds"),
    "tombstones.on.delete": ("true", "false"),
    "skip.messages.without.change": ("false", "true"),
    "field.name.adjustment.mode": ("none", "avro", "avro_unicode"),
    "schema.name.adjustment.mode": ("none", "avro", "avro_unicode"),
    "datatype.propagate.source.type": ("", ".*", ".*VARCHAR"),
    "column.mask.with.3.chars": ("", r".*\.(vc|e|tx)"),
    "column.mask.hash.SHA-256.with.salt.s": (
        "",
        r".*\.(c|s)",
    ),  # of a VARCHAR Debezium would tell the type, and not hash it
    "column.truncate.to.2.chars": ("", r".*\.(vlat|vb|tt|bl|de)"),
    "column.exclude.list": ("", r".*\.(i|mt)"),
    "message.key.columns": ("", r".*\.t0:id,tiu"),
    "skipped.operations": ("t", "none", "d", "u", "c,t"),
    "topic.delimiter": (".", "-"),
}


@dataclass
class Table:
    """A table, and the names of its columns."""

    name: str
    columns: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    """By column, where it was renamed: what it was called when it was made."""
    rows: int = 0


class Case:
    """One case: the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        options = {name: chance.choice(values) for name, values in _OPTIONS.items()}
        if (
            options["datatype.propagate.source.type"] == ".*"
        ):  # Debezium would tell the types, and hash nothing
            options["column.mask.hash.SHA-256.with.salt.s"] = ""
        self.options = {name: value for name, value in options.items() if value}
        self.tables = [Table(f"t{number}") for number in range(chance.randint(1, 3))]

    def made(self) -> Iterator[str]:
        """What makes the tables and their first rows."""
        chance = self._chance
        for table in self.tables:
            table.columns = chance.sample(sorted(_TYPES), chance.randint(3, 12))
            if "tiu" not in table.columns:
                table.columns.append("tiu")  # for message.key.columns
            parts = [f"`{name}` {self._declared(name)}" for name in table.columns]
            key = chance.choice(
                ("PRIMARY KEY (id)", "PRIMARY KEY (code, id)", "UNIQUE KEY (code)", "KEY (id)")
            )
            yield (
                f"CREATE TABLE {table.name} (id INT NOT NULL, code VARCHAR(9) NOT NULL, {', '.join(parts)}, {key})"
            )
            for _ in range(chance.randint(0, 5)):
                yield self._insert(table)

    def _declared(self, name: str) -> str:
        kind = _TYPES[name].strip().removesuffix(" NULL").removesuffix(" NOT NULL DEFAULT TRUE")
        more = ""
        if name in _DEFAULTS and self._chance.random() < 0.4:
            more = f" DEFAULT {_DEFAULTS[name]}"
        beyond = name.startswith("tm") and self.options["time.precision.mode"] in {"connect", "isostring"}
        if name in _MAY_BE_NULL or beyond:  # a TIME that such a mode has no place for is null, or stops both
            return f"{kind} NULL"
        return f"{kind}{self._chance.choice((' NULL', ' NOT NULL'))}{more}"

    def _insert(self, table: Table) -> str:
        table.rows += 1
        given = {name: self._value(table, name) for name in table.columns if self._chance.random() < 0.7}
        given |= {"id": str(table.rows), "code": f"'c{table.rows}'"}
        names = ", ".join(f"`{name}`" for name in given)
        return f"INSERT INTO {table.name} ({names}) VALUES ({', '.join(given.values())})"

    def _value(self, table: Table, name: str) -> str:
        return self._chance.choice(_VALUES[table.kinds.get(name, name)])

    def _changed(self, table: Table) -> str:
        chance = self._chance
        where = chance.choice(
            ("", f" WHERE id = {chance.randint(1, max(1, table.rows))}", " WHERE id % 2 = 0")
        )
        match chance.choice(("insert", "insert", "update", "update", "key", "same", "delete")):
            case "insert":
                return self._insert(table)
            case "update":
                name = chance.choice(table.columns)
                return f"UPDATE {table.name} SET `{name}` = {self._value(table, name)}{where}"
            case "key":
                table.rows += 100
                return f"UPDATE {table.name} SET id = id + 100, code = CONCAT('k', id + {table.rows}){where}"
            case "same":
                return f"UPDATE {table.name} SET `{table.columns[0]}` = `{table.columns[0]}`{where}"
            case _:
                return f"DELETE FROM {table.name}{where or ' WHERE id % 3 = 0'}"

    def changes(self) -> list[str]:
        """Statements, some of them transactions."""
        chance, found = self._chance, []
        for _ in range(chance.randint(3, 8)):
            table = chance.choice(self.tables)
            if chance.random() < 0.5:
                found.append(self._changed(table))
                continue
            found += ["BEGIN", self._changed(table), "SAVEPOINT s", self._insert(table), "ROLLBACK TO s"]
            found += [self._changed(chance.choice(self.tables)) for _ in range(chance.randint(1, 4))]
            found.append(chance.choice(("COMMIT", "COMMIT", "ROLLBACK")))
        return found

    def marker(self, number: int) -> str:
        """What changes the row of a table `ends (id, n)`, or adds one, and is told."""
        if "c" in self.options["skipped.operations"]:
            return f"UPDATE ends SET n = {number}"
        return f"INSERT INTO ends VALUES ({number}, {number})"

    def definition(self) -> str:
        """A definition on one of the tables."""
        chance, table = self._chance, self._chance.choice(self.tables)
        free = sorted(_TYPES.keys() - _OTHERWISE - set(table.columns))
        match chance.choice(("add", "add first", "drop", "rename", "truncate")):
            case "drop" if len(table.columns) > 2:
                name = chance.choice([name for name in table.columns if name != "tiu"])
                table.columns.remove(name)
                return f"ALTER TABLE {table.name} DROP COLUMN `{name}`"
            case "rename":
                name = chance.choice([name for name in table.columns if name != "tiu"])
                new = f"r-{len(table.columns)}{name}"
                table.columns[table.columns.index(name)] = new
                table.kinds[new] = table.kinds.get(name, name)
                return f"ALTER TABLE {table.name} RENAME COLUMN `{name}` TO `{new}`"
            case "truncate":
                return f"TRUNCATE TABLE {table.name}"
            case how:
                name = chance.choice(free)
                table.columns.append(name)
                behind = " FIRST" if how == "add first" else ""
                return f"ALTER TABLE {table.name} ADD COLUMN `{name}` {_TYPES[name].split(' NOT NULL')[0]}{behind}"


def differences_of(case: Case, compared: Compared, run: Callable[..., object], name: str) -> list[str]:
    """Run a case through both connectors; where their records differ.

    Args:
        run: runs statements.
        name: of the connectors and the database.
    """
    run("CREATE TABLE ends (id INT PRIMARY KEY, n INT)", "INSERT INTO ends VALUES (0, 0)", *case.made())
    between = case.options["topic.delimiter"]
    ends = between.join((name, name, "ends"))
    topics = [between.join((name, name, table.name)) for table in case.tables]
    history = f"our-history-of-{name}"  # each side's, where the log names no columns
    with compared.running(case.options, ends, schema_history_internal_kafka_topic=history) as sides:
        for number in range(1, 4):
            if number > 1:
                run(case.definition())
            run(*case.changes(), case.marker(number))
            sides.await_both(ends, number + 1)
        for topic in topics:
            sides.await_both(topic, len(sides.records(topic)[1]), 30)
        found = sides.differences([*topics, ends])
    return [str(case.options), *found[:30]] if found else []
