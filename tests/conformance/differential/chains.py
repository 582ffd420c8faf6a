"""Random chains of transforms for tables that are known. A chain that fails ends both tasks, so that nothing is left to
compare: the options are those that every row can bear."""

from random import Random

from differential.tables import Column, Table
from transform_chain import DEBEZIUM, KAFKA, Chain

UNWRAP = f"{DEBEZIUM}ExtractNewRecordState"
WORDS = {"text", "varchar", "varchar(20)", "char(7)"}


def chain(rng: Random, tables: list[Table], options: dict[str, str]) -> dict[str, str]:
    """The options with a chain."""
    made = Chain(**options)
    streamed = options["snapshot.mode"] == "no_data"
    if rng.random() < 0.25:
        made.add(f"{DEBEZIUM}SchemaChangeEventFilter", schema__change__event__exclude__list="CREATE")
    if rng.random() < 0.25:
        made.add(f"{DEBEZIUM}TimezoneConverter", converted__timezone=rng.choice(["+05:45", "Europe/Paris"]))
    for table in rng.sample(tables, min(len(tables), 3)):
        named = rf"{table.name}" if table.name.isascii() and table.name.isalnum() else None
        if named is None or table.partitioned:
            continue
        for kind, more in links(rng, table, streamed=streamed):
            made.on(named, kind, **more)
    if rng.random() < 0.4:
        made.add(
            f"{KAFKA}InsertHeader",
            header="site",
            value__literal=rng.choice(["here", "7", "1.5", "true", '{"a": 1}', "2026-01-02"]),
        )
    if rng.random() < 0.3:
        made.predicate("moved", "HasHeaderKey", name="__debezium.newkey")
        made.add(f"{KAFKA}InsertHeader", header="moved", value__literal="yes", predicate="moved")
    if rng.random() < 0.2:
        made.predicate("tomb", "RecordIsTombstone")
        made.add(f"{KAFKA}Filter", predicate="tomb")
    return made.all()


def links(rng: Random, table: Table, *, streamed: bool) -> list[tuple[str, dict[str, str]]]:
    """A few transforms for a table's records."""
    ordinary = [
        c
        for c in table.columns
        if not c.generated and c.name != "id" and c.name.isascii() and c.name.isalnum()
    ]
    if rng.random() < 0.15:
        return [(f"{KAFKA}Flatten$Value", {"delimiter": rng.choice(["_", "."])})] if plain(table) else []
    if rng.random() < 0.12:
        return [
            (
                f"{DEBEZIUM}ByLogicalTableRouter",
                {
                    "topic__regex": r"(.*)\.([^.]*)",
                    "topic__replacement": "$1.all_$2",
                    "key__enforce__uniqueness": rng.choice(["true", "false"]),
                },
            )
        ]
    if rng.random() < 0.12:
        parts = {"partition__payload__fields": rng.choice(["change.id", "source.table"])}
        return [(f"{DEBEZIUM}partitions.PartitionRouting", parts | {"partition__topic__num": "1"})]
    found = [(UNWRAP, unwrap(rng, streamed=streamed))]
    if rng.random() < 0.2:
        found.append((f"{KAFKA}RegexRouter", {"regex": "(.*)", "replacement": "$1_routed"}))
    if rng.random() < 0.2:
        found.append((f"{KAFKA}DropHeaders", {"headers": "__debezium.context.taskId,nothing"}))
    if rng.random() < 0.3:
        header = {"header__changed__name": "Changed", "header__unchanged__name": "Unchanged"}
        found.insert(0, (f"{DEBEZIUM}ExtractChangedRecordState", header))
    alive = (
        next(given for kind, given in found if kind == UNWRAP).get("delete__tombstone__handling__mode")
        == "drop"
    )
    if not alive or not ordinary:
        return found  # most others cannot take a null value
    for _ in range(rng.randrange(3)):
        found += rng.choice([inserted, replaced, hoisted, named, masked, casted, keyed, from_header])(
            rng, ordinary
        )
        if found[-1][0].endswith("HoistField$Value"):
            break
    return found


def plain(table: Table) -> bool:
    """Whether all columns are of types that Flatten takes."""
    return all(column.kind.sql in WORDS | {"integer", "bigint", "boolean"} for column in table.columns)


def unwrap(rng: Random, *, streamed: bool) -> dict[str, str]:
    """Options of ExtractNewRecordState."""
    found = {
        "delete__tombstone__handling__mode": rng.choice(
            ["drop", "drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"]
        )
    }
    if rng.random() < 0.5:
        found["add__fields"] = ",".join(
            rng.sample(
                # Two snapshots are taken at two moments.
                ["op", "table", "source.snapshot", "db:base", "schema", *(["lsn", "source.txId"] * streamed)],
                3,
            )
        )
    if rng.random() < 0.3:
        found["add__headers"] = ",".join(
            rng.sample(["op", "table", "source.schema:where", *(["lsn"] * streamed)], 2)
        )
    if rng.random() < 0.3:
        found["add__fields__prefix"] = rng.choice(["", "x_"])
    if rng.random() < 0.2:
        found["replace__null__with__default"] = "false"
    return found


Links = list[tuple[str, dict[str, str]]]


def inserted(rng: Random, columns: list[Column]) -> Links:
    side = rng.choice(["Value", "Value", "Key"])
    if side == "Key":
        return []  # a table without a key has nothing to insert into
    return [
        (
            f"{KAFKA}InsertField$Value",
            {"topic__field": "at_topic", "static__field": "fixed", "static__value": "x"},
        )
    ]


def replaced(rng: Random, columns: list[Column]) -> Links:
    column = rng.choice(columns)
    if rng.random() < 0.5:
        return [(f"{KAFKA}ReplaceField$Value", {"exclude": column.name})]
    return [(f"{KAFKA}ReplaceField$Value", {"renames": f"{column.name}:other_{column.name}"})]


def hoisted(rng: Random, columns: list[Column]) -> Links:
    return [(f"{KAFKA}HoistField$Value", {"field": "row"})]


def named(rng: Random, columns: list[Column]) -> Links:
    return [(f"{KAFKA}SetSchemaMetadata$Value", {"schema__name": "com.example.Row", "schema__version": "3"})]


def masked(rng: Random, columns: list[Column]) -> Links:
    fit = [c for c in columns if c.kind.sql in WORDS | {"integer", "bigint", "boolean", "double precision"}]
    return [(f"{KAFKA}MaskField$Value", {"fields": rng.choice(fit).name})] if fit else []


def keyed(rng: Random, columns: list[Column]) -> Links:
    found: Links = [(f"{KAFKA}ValueToKey", {"fields": "id"})]
    if rng.random() < 0.5:
        found.append((f"{KAFKA}ExtractField$Key", {"field": "id"}))
    return found


def from_header(rng: Random, columns: list[Column]) -> Links:
    fields = {"headers": "__debezium.context.connectorName", "fields": "connector_name"}
    return [(f"{DEBEZIUM}HeaderToValue", fields | {"operation": rng.choice(["move", "copy"])})]


def casted(rng: Random, columns: list[Column]) -> Links:
    fit = [c for c in columns if c.kind.sql in {"integer", "smallint", "boolean", "bigint"}]
    if not fit:
        return []
    target = rng.choice(["string", "int64", "float64", "boolean"])
    return [(f"{KAFKA}Cast$Value", {"spec": f"{rng.choice(fit).name}:{target}"})]
