"""Chains of transforms, written short, and the tables and changes that go through them."""

KAFKA = "org.apache.kafka.connect.transforms."
DEBEZIUM = "io.debezium.transforms."


class Chain:
    """Options of a chain, written short."""

    def __init__(self, **options: str) -> None:
        self.options = dict(options)
        self._aliases: list[str] = []
        self._predicates: dict[str, str] = {}

    def on(self, table: str, kind: str, **options: str) -> "Chain":
        """A transform of one table's records (regular expression); options with ``__`` for a dot."""
        if table not in self._predicates:
            alias = self._predicates[table] = f"p{len(self._predicates)}"
            self.options[f"predicates.{alias}.type"] = f"{KAFKA}predicates.TopicNameMatches"
            self.options[f"predicates.{alias}.pattern"] = rf".*\.{table}"
        return self.add(kind, predicate=self._predicates[table], **options)

    def predicate(self, alias: str, kind: str, **options: str) -> "Chain":
        """Another predicate."""
        self._predicates[alias] = alias
        self.options[f"predicates.{alias}.type"] = f"{KAFKA}predicates.{kind}"
        self.options |= {f"predicates.{alias}.{name}": value for name, value in options.items()}
        return self

    def add(self, kind: str, **options: str) -> "Chain":
        """A transform of every record."""
        alias = f"t{len(self._aliases)}"
        self._aliases.append(alias)
        self.options[f"transforms.{alias}.type"] = kind
        self.options |= {f"transforms.{alias}.{name.replace('__', '.')}": v for name, v in options.items()}
        return self

    def all(self) -> dict[str, str]:
        """The connector's options."""
        return self.options | {
            "transforms": ",".join(self._aliases),
            "predicates": ",".join(self._predicates.values()),
        }


ROWS = """
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TABLE {t} (
        id int PRIMARY KEY, name text NOT NULL DEFAULT 'nobody', small smallint, big bigint DEFAULT 7,
        amount numeric(10, 2), free numeric, f4 real, f8 double precision, yes boolean, at timestamp(3),
        zoned timestamptz, day date, clock time, data bytea, doc jsonb, mood mood, ids int[], topic text
    );
    ALTER TABLE {t} REPLICA IDENTITY FULL
"""
CHANGES = [
    (
        "INSERT INTO {t} VALUES (1, 'a', 2, 3, 4.50, 1.5, 1.1, 2.2, true, '2026-01-02 03:04:05.678',"
        " '2026-01-02 03:04:05.678+02', '2026-01-02', '03:04:05', '\\x0102', '{{\"a\": [1, null]}}', 'ok', '{{1,2}}', 'there')"
    ),
    "INSERT INTO {t} (id, big) VALUES (2, NULL)",
    "UPDATE {t} SET name = 'b', amount = NULL WHERE id = 1",
    "UPDATE {t} SET id = 10 WHERE id = 1",
    "DELETE FROM {t} WHERE id = 10",
]


def tables(*names: str) -> tuple[list[str], list[list[str]]]:
    """The same table several times, and the same changes to each."""
    first = ROWS.format(t=names[0])
    others = [
        f"CREATE TABLE {n} (LIKE {names[0]} INCLUDING ALL); ALTER TABLE {n} REPLICA IDENTITY FULL"
        for n in names[1:]
    ]
    return [first, *others], [[change.format(t=name) for name in names for change in CHANGES]]
