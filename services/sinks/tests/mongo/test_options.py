"""Every option of MongoDB's connector is obeyed or refused by name, with a reason; topics may have their own."""

import pytest
from mongo_parts import SINK, id_strategy, write_strategy

from tidings_connect.config.option import Option
from tidings_connect.config.plugins import find_connector
from tidings_sinks.mongo.connector import MongoSink
from tidings_sinks.mongo.options import OPTIONS, REFUSED, overridden
from tidings_sinks.mongo.settings import Id, read_settings

CONFIG = {
    "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
    "topics": "a.b,c",
    "database": "shop",
}
THEIRS = (
    "connection.uri connection.ssl.truststore connection.ssl.truststorePassword connection.ssl.keystore"
    " connection.ssl.keystorePassword server.api.version server.api.deprecation.errors server.api.strict database collection"
    " namespace.mapper namespace.mapper.key.database.field namespace.mapper.value.database.field"
    " namespace.mapper.key.collection.field namespace.mapper.value.collection.field namespace.mapper.error.if.invalid"
    " delete.on.null.values writemodel.strategy delete.writemodel.strategy max.batch.size bulk.write.ordered"
    " rate.limiting.timeout rate.limiting.every.n post.processor.chain key.projection.type key.projection.list"
    " value.projection.type value.projection.list field.renamer.mapping field.renamer.regexp field.value.transformer"
    " field.value.transformer.fields document.id.strategy document.id.strategy.overwrite.existing"
    " document.id.strategy.uuid.format document.id.strategy.partial.key.projection.type"
    " document.id.strategy.partial.key.projection.list document.id.strategy.partial.value.projection.type"
    " document.id.strategy.partial.value.projection.list mongo.errors.tolerance mongo.errors.log.enable"
    " change.data.capture.handler change.data.capture.handler.remove.null.values timeseries.timefield timeseries.metafield"
    " timeseries.expire.after.seconds timeseries.granularity timeseries.timefield.auto.convert"
    " timeseries.timefield.auto.convert.date.format timeseries.timefield.auto.convert.locale.language.tag csfle.enabled"
    " csfle.key.vault.namespace csfle.local.master.key csfle.schema.map csfle.bypass.query.analysis"
    " mongo.custom.auth.mechanism.enable mongo.custom.auth.mechanism.providerClass"
)


def problems(changes: dict[str, str]) -> dict[str, list[str]]:
    return MongoSink().problems(CONFIG | changes)


def test_it_is_found_by_its_class_and_its_short_names() -> None:
    for name in (CONFIG["connector.class"], "MongoSinkConnector", "MongoSink"):
        assert isinstance(find_connector(name), MongoSink), name
    assert problems({}) == {}


@pytest.mark.listing
def test_each_of_their_options_is_obeyed_or_refused_by_name() -> None:
    known = {option.name for option in OPTIONS}
    for name in THEIRS.split():
        assert (name in known) != (name in REFUSED), name
        if name in REFUSED:
            assert REFUSED[name] in problems({name: "x"})[name][0]
            assert REFUSED[name] in problems({f"topic.override.c.{name}": "x"})[f"topic.override.c.{name}"][0]


@pytest.mark.listing
@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_each_option_says_what_it_means(option: Option) -> None:
    assert option.documentation.endswith(".")


PARTIAL = {"document.id.strategy": id_strategy("PartialKey")}


@pytest.mark.parametrize(
    "wrong",
    [
        {"connection.uri": "http://user:secret@host"},
        {"connection.uri": "mongodb://user:secret@host/?w=0"},
        {"database": ""},
        {"document.id.strategy": "com.example.Own"},
        {"writemodel.strategy": f"{SINK}writemodel.strategy.NoSuchStrategy"},
        {"change.data.capture.handler": f"{SINK}cdc.debezium.mongodb.MongoDbHandler"},
        {"post.processor.chain": f"{SINK}processor.DocumentIdAdder,com.example.Own"},
        {"field.renamer.mapping": '[{"oldName": "a"}]'},
        {"field.renamer.mapping": "{}"},
        {"field.renamer.regexp": '[{"regexp": "(", "pattern": "a", "replace": ""}]'},
        {"bulk.write.ordered": "maybe"},
        {"max.batch.size": "-1"},
        {"delete.on.null.values": "true"},
        {"document.id.strategy.partial.key.projection.type": "", **PARTIAL},
        {"delete.writemodel.strategy": f"{SINK}writemodel.strategy.DeleteOneTombstoneBusinessKeyStrategy",
         "delete.on.null.values": "true", "document.id.strategy": id_strategy("FullKey")},
        {"tidings.positions": "true", "writemodel.strategy": write_strategy("ReplaceOneBusinessKey")},
        {"namespace.mapper": f"{SINK}namespace.mapping.FieldPathNamespaceMapper"},
        {"namespace.mapper.key.database.field": "a", "namespace.mapper.value.database.field": "b",
         "namespace.mapper": f"{SINK}namespace.mapping.FieldPathNamespaceMapper"},
        {"topic.override.c.max.batch.size": "-1"},
        {"topic.override.c.no.such": "1"},
        {"topic.override.c.delete.on.null.values": "true"},
        {"topic.override.c.connection.uri": "mongodb://other"},
        {"timeseries.timefield": "at"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)  # fmt: skip
def test_what_is_wrong_is_refused_by_name(wrong: dict[str, str]) -> None:
    found = problems(wrong)
    name = next(iter(wrong))
    assert list(found) == [name]
    assert name.removeprefix("topic.override.c.") in found[name][0]
    assert "secret" not in str(found)


def test_topics_have_dots_in_their_names() -> None:
    assert overridden("topic.override.shop.public.orders.collection") == ("shop.public.orders", "collection")
    assert overridden("topic.override.a.namespace.mapper.key.collection.field") == (
        "a",
        "namespace.mapper.key.collection.field",
    )
    assert overridden("topic.override.collection") is None


def test_a_topic_s_own_options_count() -> None:
    settings = read_settings(
        "sink",
        CONFIG
        | {
            "topic.override.a.b.collection": "own",
            "topic.override.a.b.document.id.strategy": id_strategy("FullKey"),
        },
    )
    assert (settings.of("a.b").collection, settings.of("c").collection) == ("own", "")
    assert (settings.of("a.b").id, settings.of("c").id) == (Id.KEY, Id.OBJECT_ID)
    assert (settings.of("a.b").positions, settings.of("c").positions) == (True, False)
    assert "secret" not in repr(
        read_settings("sink", CONFIG | {"connection.uri": "mongodb://me:secret@host"})
    )
