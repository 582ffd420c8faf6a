"""Names of topics, schemas and fields. What they must be is said by the conformance suite; here are the corners."""

from typing import Any

import pytest

from tidings_capture.cdc.naming import KeyField, NameAdjustment, TopicNames, adjusted, replaced
from tidings_capture.postgres.settings.option_table import OPTIONS
from tidings_connect.java.regex import compile_java

REGEX = "io.debezium.schema.SchemaRegexTopicNamingStrategy"


def names(prefix: str = "shop", **options: Any) -> TopicNames:
    given = {name.replace("_", "."): value for name, value in options.items()}
    return TopicNames(prefix, lambda name: given.get(name, OPTIONS[name].default or ""))


@pytest.mark.parametrize(
    ("name", "mode", "field", "wanted"),
    [
        ("a-b.c", "none", True, "a-b.c"),
        ("a-b.c", "avro", False, "a_b.c"),
        ("a-b.c", "avro", True, "a_b_c"),
        ("1st", "avro", True, "_1st"),
        ("-x", "avro", True, "_x"),
        ("😀", "avro", True, "__"),
        ("a_b", "avro_unicode", True, "a_u005fb"),
        ("é.x", "avro_unicode", False, "_u00e9.x"),
        ("Ā", "avro_unicode", True, "_u100"),
        ("", "avro", True, ""),
    ],
)
def test_adjusted(name: str, mode: str, field: bool, wanted: str) -> None:
    assert adjusted(name, NameAdjustment(mode), field=field) == wanted


def test_topics_are_cut_and_made_of_what_kafka_takes() -> None:
    assert names().of_table("public", "a b/ü") == "shop.public.a_b__"
    assert len(names().of_table("public", "x" * 300)) == 249
    own = names(topic_delimiter="_", topic_transaction="tx", topic_heartbeat_prefix="beat")
    assert (own.of_table("s", "t"), own.transaction, own.heartbeat) == ("shop_s_t", "shop_tx", "beat_shop")
    assert names(topic_heartbeat_name="all").heartbeat == "all"


@pytest.mark.parametrize("kind", ["", "Regex", "Unicode"])
def test_strategies_named_default_leave_the_schema_out(kind: str) -> None:
    strategy = f"io.debezium.schema.Default{kind}TopicNamingStrategy"
    assert names(topic_naming_strategy=strategy, topic_regex="x").of_table("public", "t") == "shop.t"


def test_regular_expressions_route_and_say_in_the_key_where_from() -> None:
    options = {
        "topic_naming_strategy": REGEX,
        "topic_regex": r"(.*)\.orders_(\d+)",
        "topic_replacement": "$1.orders",
    }
    assert names(**options).of_table("public", "orders_12") == "shop.public.orders"
    assert names(**options).of_table("public", "other") == "shop.public.other"
    field = KeyField("__dbz__physicalTableIdentifier", "shop.public.orders_12")
    assert names(**options).key_field("public", "orders_12") == field
    more = {"topic_key_field_regex": r".*_(?<number>\d+)", "topic_key_field_replacement": "no ${number}"}
    assert names(**options, **more).key_field("public", "orders_12").value == "no 12"
    assert names(**options, **more).key_field("public", "x").value == "shop.public.x"
    assert names(**options, topic_key_enforce_uniqueness="false").key_field("public", "x") is None
    assert names().key_field("public", "x") is None


def test_replacements_are_javas() -> None:
    assert replaced(compile_java("(a)(b)?"), r"\$1=$1$2", "a") == "$1=a"
    assert replaced(compile_java("(a)"), "$1", "ab") is None
