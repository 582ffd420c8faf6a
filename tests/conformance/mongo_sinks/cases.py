"""One random case past both sinks: random options of MongoDB's sink, and a random stream of envelopes or flat rows."""

import json
from typing import Any

from jdbc_sinks.stream import Column, Stream, Table
from jdbc_sinks.values import Values
from mongo_sinks.sides import MongoKafka, differences, run_ours
from random_streams import Result

SINK = "com.mongodb.kafka.connect.sink."
_IDS = f"{SINK}processor.id.strategy."
_WRITES = f"{SINK}writemodel.strategy."
HANDLERS = ("RdbmsHandler", "mysql.MysqlHandler", "postgres.PostgresHandler")


class MongoStream(Stream):
    """A stream for these options. Not ``bulk.write.ordered=false``: mongo-kafka then runs the deletes of a request last."""

    def __init__(self, seed: int, topics: str) -> None:
        super().__init__(seed, topics)
        chance = self._random
        self.flat = chance.random() < 0.6
        self.ids = True
        """Whether both sides make the same ids."""
        self.sent = self._flat_options() if self.flat else self._handler_options()
        self.sent |= {"errors.tolerance": "all"}
        if chance.random() < 0.5:
            self.sent["max.batch.size"] = chance.choice(["1", "2", "7"])
        if chance.random() < 0.2:
            self.sent["collection"] = "all"

    def _options(self) -> dict[str, str]:
        return {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"}

    def _choose_fields(self) -> None:
        """There are none to be chosen."""

    def _handler_options(self) -> dict[str, str]:
        found = {"change.data.capture.handler": f"{SINK}cdc.debezium.rdbms.{self._random.choice(HANDLERS)}"}
        if self._random.random() < 0.3:
            field = self._random.choice(["source.table", "source.connector", "after.no_such"])
            found |= {
                "namespace.mapper": f"{SINK}namespace.mapping.FieldPathNamespaceMapper",
                "namespace.mapper.value.collection.field": field,
            }
        return found

    def _flat_options(self) -> dict[str, str]:
        chance = self._random
        which = chance.choice(["key", "key", "partial", "value", "place", "business", "insert", "oid"])
        found: dict[str, str] = {}
        first = self.tables[0].keys[0].name
        if which in {"key", "partial"}:
            found["document.id.strategy"] = f"{_IDS}{'FullKey' if which == 'key' else 'PartialKey'}Strategy"
            found["delete.on.null.values"] = chance.choice(["true", "true", "false"])
            write = chance.choice(["ReplaceOneDefault", "UpdateOneDefault", "UpdateOneTimestamps"])
            found["writemodel.strategy"] = f"{_WRITES}{write}Strategy"
        elif which in {"value", "business"}:
            found |= {
                "document.id.strategy": f"{_IDS}PartialValueStrategy",
                "document.id.strategy.partial.value.projection.type": "AllowList",
                "document.id.strategy.partial.value.projection.list": first,
                "document.id.strategy.overwrite.existing": "true",
            }
            if which == "business":
                self.ids = False
                write = chance.choice(["ReplaceOneBusinessKey", "UpdateOneBusinessKeyTimestamp"])
                found["writemodel.strategy"] = f"{_WRITES}{write}Strategy"
        elif which in {"place", "insert"}:
            found["document.id.strategy"] = f"{_IDS}KafkaMetaDataStrategy"
            if which == "insert":
                found["writemodel.strategy"] = f"{_WRITES}InsertOneDefaultStrategy"
        else:
            self.ids = False
        if which == "partial":
            found["document.id.strategy.partial.key.projection.type"] = chance.choice(
                ["AllowList", "BlockList"]
            )
            found["document.id.strategy.partial.key.projection.list"] = chance.choice(
                ["k0", "k1", "k*", "no"]
            )
        if chance.random() < 0.5:
            found |= self._chain(which)
        return found

    def _chain(self, which: str) -> dict[str, str]:
        chance = self._random
        names = [column.name for column in self.tables[0].columns]
        some = ",".join([*chance.sample(names, min(2, len(names))), "k*", "_id"])
        links = ["NullFieldValueRemover", "AllowListValueProjector", "field.renaming.RenameByMapping",
                 "field.renaming.RenameByRegExp"]  # fmt: skip
        if which != "business":
            links += ["BlockListKeyProjector", "KafkaMetaAdder"]
        chosen = chance.sample(links, chance.randrange(1, 4))
        chosen.insert(chance.choice([0, len(chosen)]), "DocumentIdAdder")
        return {
            "post.processor.chain": ",".join(f"{SINK}processor.{link}" for link in chosen),
            "value.projection.list": chance.choice([some, "**", "c*,k*,_id"]),
            "key.projection.list": chance.choice(["k1", "no.such", "k9"]),
            "field.renamer.mapping": json.dumps([{"oldName": f"value.{names[0]}", "newName": "renamed"}]),
            "field.renamer.regexp": json.dumps(
                [{"regexp": "^value\\.c_.*$", "pattern": "^c_", "replace": "r_"}]
            ),
        }

    def _table(self, number: int) -> Table:
        table = super()._table(number)
        nested: Any = {"type": "struct", "name": "inner", "fields": [
            {"type": "string", "optional": True, "field": "c"}, {"type": "int64", "optional": True, "field": "n"}]}  # fmt: skip
        if self._random.random() < 0.5:
            values = Values("nested", nested, ({"c": "x", "n": 1}, {"c": None, "n": 2**40}))
            table.columns.append(Column("c_nested", values))
            listed = Values(
                "listed",
                {"type": "array", "items": {**nested, "optional": True}},
                ([], [{"c": "y", "n": None}]),
            )
            table.columns.append(Column("c_listed", listed))
        return table


def run_case(seed: int, name: str, server: str, theirs: MongoKafka, changes: int) -> Result:
    """Run a case in two databases of its own, which are dropped."""
    stream = MongoStream(seed, name)
    case = stream.case(seed, changes)
    case.options = stream.sent
    its = theirs.run(name, server, case.options, case.records, ids=stream.ids)
    own = run_ours(name, server, case.options, case.records, ids=stream.ids)
    errors = [f"{who}: {found.error}" for who, found in (("mongo-kafka", its), ("ours", own)) if found.error]
    if its.error and own.error:
        return Result(case, "both", errors)
    if its.error or own.error:
        return Result(case, "theirs" if its.error else "OURS", errors)
    lines = differences(its.documents, own.documents)
    return Result(case, "DIFFERS" if lines else "same", lines)
