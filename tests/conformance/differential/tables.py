"""Random tables, and random changes of their rows and columns."""

from dataclasses import dataclass, field, replace
from random import Random

from differential.kinds import SCALARS, Kind, array, choice, quoted, text

NAMES = [
    "1st",
    "plain",
    "CamelCase",
    "with space",
    "dash-ed",
    "dot.ted",
    "äöü",
    "a_b_",
    "select",
    "日本",
    "$dollar",
    "x😀",
    "UPPER",
]
INFINITE = {quoted(text) for text in ("NaN", "Infinity", "-Infinity")}
LABELS = ["sad", "ok", "it's so", 'a "b"', "ä,ö", "😀"]


@dataclass
class Column:
    """A column as it is now."""

    name: str
    kind: Kind
    default: str | None = None
    """As SQL."""
    required: bool = False
    generated: bool = False

    @property
    def keyed(self) -> bool:
        """Whether it may be part of a key: of a type that is left out, it ends our task (a wanted difference)."""
        return self.kind.sql in KEYS

    def definition(self) -> str:
        """The column in CREATE TABLE."""
        if self.generated:
            return f"{identifier(self.name)} {self.kind.sql} GENERATED ALWAYS AS (1 + 1) STORED"
        default = "" if self.default is None else f" DEFAULT {self.default}"
        return f"{identifier(self.name)} {self.kind.sql}{default}{' NOT NULL' if self.required else ''}"


@dataclass
class Table:
    """A table as it is now. Its column `id` tells rows apart, whether it is a key or not."""

    schema: str
    name: str
    columns: list[Column]
    key: list[str]
    """Of the primary key; none: there is none."""
    partitioned: bool = False
    external: bool = False
    """Values are stored out of line, so that unchanged ones are not sent."""
    last_id: int = 0

    @property
    def sql(self) -> str:
        """Its qualified name as SQL."""
        return f"{identifier(self.schema)}.{identifier(self.name)}"

    def written(self) -> list[Column]:
        """Columns that an INSERT may name."""
        return [column for column in self.columns if not column.generated]


def identifier(name: str) -> str:
    """A name as SQL's quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


@dataclass
class World:
    """The tables of a case, and what has made them."""

    rng: Random
    streamed: bool
    """Whether there are no snapshots, in which some values are wanted differences."""
    required_times: bool = True
    """Whether times may be NOT NULL: with nanoseconds Debezium's task ends when such rows are deleted."""
    bare_numerics: bool = True
    """Whether there are numerics without precision, whose description in snapshots is a wanted difference."""
    avro: bool = False
    """Whether records are Avro: then Debezium writes schemas that Avro's own parser refuses where a table's name begins with a
    digit, and where a number that may be null is infinite by default."""
    setup: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    renames: bool = True
    """Whether tables may get another name: out of table.include.list Debezium goes on under the old one."""
    _types: int = 0

    def build(self, count: int) -> None:
        """Make types, schemas and tables."""
        self.setup += [f"CREATE EXTENSION {name}" for name in ("hstore", "ltree", "citext", "isn")]
        schemas = ["public"]
        if self.rng.random() < 0.4:
            schemas.append(self.rng.choice(["other", "Odd schema", "sch-ema"]))
            self.setup.append(f"CREATE SCHEMA {identifier(schemas[-1])}")
        for number in range(count):
            self.tables.append(self.table(self.rng.choice(schemas), number))

    def table(self, schema: str, number: int) -> Table:
        """Make a table, with some rows in it."""
        rng = self.rng
        name = f"{rng.choice(NAMES[self.avro :]) if rng.random() < 0.4 else 'table'}{number}"
        identity = Column("id", Kind(rng.choice(["integer", "bigint"]), choice("0")), required=True)
        columns = [identity, *(self.column(i) for i in range(rng.randrange(1, 9)))]
        rng.shuffle(columns)
        key = ["id"]
        if rng.random() < 0.3:
            key = []
        elif rng.random() < 0.3:
            others = [c for c in columns if c is not identity and c.kind.sql in KEYS]
            key = [identity.name, *(c.name for c in others[:2])]
            rng.shuffle(key)
        table = Table(
            schema, name, columns, key, partitioned=self.streamed and bool(key) and rng.random() < 0.15
        )
        if any(column.generated for column in columns):
            for column in columns:
                column.default = None  # beside a generated column some end Debezium's task
        for column in columns:
            column.required = column.required or column.name in key
        parts = [column.definition() for column in columns]
        if key:
            parts.append(f"PRIMARY KEY ({', '.join(identifier(k) for k in key)})")
        self.setup.append(
            f"CREATE TABLE {table.sql} ({', '.join(parts)})"
            + (" PARTITION BY RANGE (id)" if table.partitioned else "")
        )
        if table.partitioned:
            for part, (low, high) in enumerate([("MINVALUE", "5"), ("5", "MAXVALUE")]):
                child = f"{identifier(schema)}.{identifier(f'{name}_p{part}')}"
                self.setup.append(
                    f"CREATE TABLE {child} PARTITION OF {table.sql} FOR VALUES FROM ({low}) TO ({high})"
                )
        self.setup += self.identities(table, number)
        self.setup += [self.insert(table) for _ in range(rng.randrange(4))]
        return table

    def identities(self, table: Table, number: int) -> list[str]:
        """Its replica identity, and where its values are stored."""
        rng, found = self.rng, []
        if not table.key or rng.random() < 0.4:
            found.append(f"ALTER TABLE {table.sql} REPLICA IDENTITY FULL")
        elif rng.random() < 0.2 and not table.partitioned:
            index = f"by_index_{number}"
            found.append(f"CREATE UNIQUE INDEX {index} ON {table.sql} (id)")
            found.append(f"ALTER TABLE {table.sql} REPLICA IDENTITY USING INDEX {index}")
        elif rng.random() < 0.1:
            found.append(f"ALTER TABLE {table.sql} REPLICA IDENTITY NOTHING")
        if not table.key and rng.random() < 0.5:
            found.append(f"CREATE UNIQUE INDEX unique_{number} ON {table.sql} (id)")
        if not table.partitioned and rng.random() < 0.4:
            table.external = True
            found += [
                f"ALTER TABLE {table.sql} ALTER {identifier(c.name)} SET STORAGE EXTERNAL"
                for c in table.columns
                if c.kind.sql in LONG
            ]
        return found

    def kind(self) -> Kind:
        """A type, perhaps one that is made for it."""
        rng = self.rng
        found = rng.choice(SCALARS)
        while (found.only_streamed and not self.streamed) or (
            found.sql == "numeric" and not self.bare_numerics
        ):
            found = rng.choice(SCALARS)
        self._types += 1
        dice = rng.random()
        if dice < 0.08:
            labels = rng.sample(LABELS, rng.randrange(1, len(LABELS)))
            name = f"mood{self._types}" if rng.random() < 0.7 else f"Mood-{self._types}"
            self.setup.append(f"CREATE TYPE {identifier(name)} AS ENUM ({', '.join(map(quoted, labels))})")
            found = Kind(identifier(name), choice(*labels), null_elements=False)
        elif dice < 0.11:
            self.setup.append(f"CREATE TYPE pair{self._types} AS (a integer, b text)")
            values = choice("(1,x)", "(,)", '(2,"a b")')
            found = Kind(f"pair{self._types}", values, null_elements=False)
        elif dice < 0.13:
            self.setup.append(f"CREATE TYPE span{self._types} AS RANGE (subtype = float8)")
            found = Kind(f"span{self._types}", choice("[1,2)", "empty", "(,3.5]"), null_elements=False)
        if rng.random() < 0.12:
            self.setup.append(f"CREATE DOMAIN domain{self._types} AS {found.sql}")
            found = replace(found, sql=f"domain{self._types}", null_elements=False)
        if rng.random() < 0.15 and found.arrays and not found.only_streamed:
            found = array(found)
        return found

    def column(self, number: int) -> Column:
        """A column of a random type."""
        rng = self.rng
        kind = self.kind()
        name = f"{rng.choice(NAMES) if rng.random() < 0.25 else 'c'}{number}"
        if self.streamed and rng.random() < 0.04:
            return Column(name, Kind("integer", choice("2")), generated=True)
        default = kind.literal(rng) if rng.random() < 0.3 else None
        if self.avro and default in INFINITE:
            default = None
        if default is not None and rng.random() < 0.15:
            default = "NULL"
        required = rng.random() < 0.25 and default != "NULL" and (self.required_times or not kind.temporal)
        return Column(name, kind, default, required)

    def literal(self, table: Table, column: Column) -> str:
        """A value for a column, as SQL."""
        rng = self.rng
        if not column.required and rng.random() < 0.2:
            return "NULL"
        if table.external and column.kind.sql in LONG and rng.random() < 0.5:
            return quoted(LONG[column.kind.sql])
        return column.kind.literal(rng)

    def insert(self, table: Table) -> str:
        """An INSERT that leaves some columns to their defaults."""
        rng = self.rng
        table.last_id += 1
        given = [
            c
            for c in table.written()
            if c.name == "id" or (c.required and c.default is None) or rng.random() < 0.8
        ]
        values = [str(table.last_id) if c.name == "id" else self.literal(table, c) for c in given]
        return f"INSERT INTO {table.sql} ({', '.join(identifier(c.name) for c in given)}) VALUES ({', '.join(values)})"

    def change(self, table: Table) -> str:
        """An INSERT, UPDATE or DELETE."""
        rng, dice = self.rng, self.rng.random()
        if dice < 0.55 or not table.last_id:
            return self.insert(table)
        row = rng.randrange(1, table.last_id + 1)
        where = f"WHERE id = {row}" if rng.random() < 0.8 else f"WHERE id IN ({row}, {row + 1})"
        if dice < 0.68:
            return f"DELETE FROM {table.sql} {where}"
        if dice < 0.75:
            table.last_id += 1
            return f"UPDATE {table.sql} SET id = {table.last_id} WHERE id = {row}"
        written = [c for c in table.written() if c.name != "id"]
        if not written:
            return f"UPDATE {table.sql} SET id = id {where}"
        changed = rng.sample(written, rng.randrange(1, min(3, len(written)) + 1))
        return f"UPDATE {table.sql} SET {', '.join(f'{identifier(c.name)} = {self.literal(table, c)}' for c in changed)} {where}"

    def alteration(self, table: Table, *, compatible: bool) -> list[str]:
        """Statements that change a table's columns; `compatible` are those that a registry allows: a new one that may be null."""
        rng, number = self.rng, len(table.columns)
        free = [c for c in table.written() if c.name != "id" and c.name not in table.key]
        dice = rng.random()
        if dice < 0.35 or not free or compatible:
            before = len(self.setup)
            column = self.column(number + 100)
            made, self.setup[before:] = self.setup[before:], []
            if compatible:
                column.default = None
            if any(c.generated for c in [*table.columns, column]):
                column.default, column.generated = None, False
            if column.required and column.default is None:
                column.required = False
            table.columns.append(column)
            return [*made, f"ALTER TABLE {table.sql} ADD {column.definition()}"]
        column = rng.choice(free)
        name = identifier(column.name)
        if dice < 0.5:
            table.columns.remove(column)
            return [f"ALTER TABLE {table.sql} DROP {name}"]
        if dice < 0.65:
            column.name = f"renamed{number}_{rng.randrange(1000)}"
            return [f"ALTER TABLE {table.sql} RENAME {name} TO {identifier(column.name)}"]
        if dice < 0.75:
            column.kind, column.default, column.required = Kind("text", text), None, False
            return [
                f"ALTER TABLE {table.sql} ALTER {name} DROP DEFAULT",
                f"ALTER TABLE {table.sql} ALTER {name} DROP NOT NULL",
                f"ALTER TABLE {table.sql} ALTER {name} TYPE text USING {name}::text",
            ]
        if dice < 0.85:
            column.default = column.kind.literal(rng)
            return [f"ALTER TABLE {table.sql} ALTER {name} SET DEFAULT {column.default}"]
        if dice < 0.93:
            column.required = False
            return [f"ALTER TABLE {table.sql} ALTER {name} DROP NOT NULL"]
        if dice < 0.97 and column.kind.sql in WIDER:
            column.kind = next(kind for kind in SCALARS if kind.sql == WIDER[column.kind.sql])
            column.default = None
            return [
                f"ALTER TABLE {table.sql} ALTER {name} DROP DEFAULT",
                f"ALTER TABLE {table.sql} ALTER {name} TYPE {column.kind.sql}",
            ]
        return [f"ALTER TABLE {table.sql} REPLICA IDENTITY {rng.choice(['FULL', 'DEFAULT'])}"]

    def another(self) -> list[str]:
        """Statements that make a further table, or rename one or make it anew under its old name."""
        rng, before = self.rng, len(self.setup)
        dice = rng.random()
        if dice < 0.5 or (dice < 0.75 and not self.renames):
            self.tables.append(self.table("public", 100 + len(self.tables)))
            made, self.setup[before:] = self.setup[before:], []
            return made
        old = rng.choice([table for table in self.tables if not table.partitioned])
        if dice < 0.75:
            name, old.name = identifier(f"named{len(self.tables)}{rng.randrange(1000)}"), old.sql
            statement = f"ALTER TABLE {old.name} RENAME TO {name}"
            old.name = name.strip('"')
            return [statement]
        self.tables.remove(old)
        made = [f"DROP TABLE {old.sql}"]
        fresh = self.table(old.schema, 200 + len(self.tables))
        rest, self.setup[before:] = self.setup[before:], []
        self.tables.append(fresh)
        return [*made, *rest]


WIDER = {
    "integer": "bigint",
    "smallint": "integer",
    "varchar(20)": "varchar",
    "real": "double precision",
    "numeric(10,2)": "numeric(38,10)",
    "json": "jsonb",
    "timestamp(3)": "timestamp",
    "date": "timestamp",
    "char(7)": "text",
}


KEYS = {
    "integer", "bigint", "smallint", "text", "varchar(20)", "uuid", "date", "timestamp", "timestamptz", "numeric(10,2)", "boolean",
    "char(7)", "citext", "bytea", "time", "inet", "numeric", "bit(9)", "oid", "timestamptz(3)", "varchar", "money", "timetz",
}  # fmt: skip
LONG = {
    "text": "x" * 3000,
    "varchar": "y" * 3000,
    "json": '"' + "j" * 3000 + '"',
    "jsonb": '"' + "b" * 3000 + '"',
    "bytea": "\\x" + "0102" * 1500,
    "hstore": "k=>" + "h" * 3000,
    "xml": "<a>" + "z" * 3000 + "</a>",
    "text[]": "{" + ",".join(["element"] * 600) + "}",
    "integer[]": "{" + ",".join(["7"] * 1200) + "}",
}
