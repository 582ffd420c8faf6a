"""Connector options: what is taken, what is refused, and in which words."""

from pathlib import Path
from typing import Any

import pytest

from tidings_capture.postgres.settings.config import read_connector_config
from tidings_capture.postgres.settings.definitions import DEFINITIONS
from tidings_capture.postgres.settings.option_table import FIXED, NOT_IMPLEMENTED, OPTIONS
from tidings_capture.postgres.settings.options import check_options
from tidings_connect.config.plugins import find_plugin
from tidings_connect.config.retries import read_retry_options
from tidings_connect.config.secrets import passwords
from tidings_connect.config.validation import require_connector_class
from tidings_connect.errors import OptionError
from tidings_connect.storage.records import is_ours

MINIMUM = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "database.hostname": "db",
    "database.user": "u",
    "database.password": "hush",
    "database.dbname": "shop",
    "topic.prefix": "shop",
}


def read(**changes: Any) -> Any:
    return read_connector_config("shop", {**MINIMUM, **changes}, {}, run_id="r")


def test_minimum_takes_debeziums_defaults() -> None:
    config = read()
    assert (config.slot, config.publication) == ("debezium", "dbz_publication")
    assert config.publication_autocreate == "all_tables"
    assert config.snapshot.mode == "initial"
    assert config.conversion.skipped_operations == {"t"}
    assert config.endpoint.port == 5432
    assert config.conversion.tombstones_on_delete
    assert dict(config.conversion.context_headers)["__debezium.context.connectorLogicalName"] == b"shop"
    assert "hush" not in repr(config)


@pytest.mark.parametrize(
    "name", ["connector.class", "database.hostname", "database.user", "database.dbname", "topic.prefix"]
)
def test_missing_option_is_named(name: str) -> None:
    assert name in check_options({k: v for k, v in MINIMUM.items() if k != name})


def test_what_is_refused_may_have_the_value_that_is_debeziums_default() -> None:
    defaults = {name: DEFINITIONS.defaults.get(name) or "" for name in NOT_IMPLEMENTED}
    assert check_options({**MINIMUM, **defaults}) == {}
    assert set(check_options({**MINIMUM, **dict.fromkeys(NOT_IMPLEMENTED, "another")})) == NOT_IMPLEMENTED


def test_default_plugin_is_refused_with_the_way_out() -> None:
    problems = check_options({k: v for k, v in MINIMUM.items() if k != "plugin.name"})
    assert "pgoutput" in problems["plugin.name"][0]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("slot.name", "Bad-Name", "only digits, lowercase"),
        ("database.port", "90000", "port"),
        ("database.port", "x", "An integer is expected"),
        ("snapshot.mode", "sometimes", "initial_only"),
        ("tombstones.on.delete", "yes", "'true' or 'false'"),
        ("decimal.handling.mode", "exact", "precise"),
        ("table.include.list", "public.(", "regular expression"),
        ("skipped.operations", "c,x", "Invalid operation"),
        ("unavailable.value.placeholder", "hex:0 1", "hexadecimal digits"),
        ("topic.prefix", "a b", "alphanumeric"),
        ("plugin.name", "wal2json", "pgoutput"),
        ("publication.autocreate.mode", "auto", "filtered"),
    ],
)
def test_wrong_value_names_option_and_choice(name: str, value: str, words: str) -> None:
    (text,) = check_options({**MINIMUM, name: value})[name]
    assert text.startswith(f"The '{name}' value is invalid: ")
    assert words in text


def test_unknown_option_names_the_nearest() -> None:
    (text,) = check_options({**MINIMUM, "table.includelist": "a"})["table.includelist"]
    assert "did you mean table.include.list?" in text


@pytest.mark.parametrize("name", sorted(NOT_IMPLEMENTED | {"internal.x", "notification.http.url"}))
def test_what_debezium_has_and_we_have_not_is_refused_by_name(name: Any) -> None:
    (text,) = check_options({**MINIMUM, name: "x"})[name]
    assert name in text
    assert "not implemented" in text


@pytest.mark.parametrize(("name", "value"), sorted(FIXED.items()))
def test_the_only_behaviour_is_accepted_and_any_other_refused(name: Any, value: Any) -> None:
    assert name not in check_options({**MINIMUM, name: value})
    assert "not implemented" in check_options({**MINIMUM, name: "something else"})[name][0]


def test_options_of_converters_topics_and_the_producer_pass_through() -> None:
    config = read(
        **{
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": "http://r",
            "producer.override.linger.ms": "1",
            "topic.creation.default.partitions": "3",
            "topic.creation.default.cleanup.policy": "compact",
        }
    )
    assert config.producer == {"linger.ms": "1"}
    assert config.topic_creation.default.partitions == 3
    assert config.topic_creation.default.config == {"cleanup.policy": "compact"}
    assert config.converters["value.converter.schema.registry.url"] == "http://r"


def test_producer_settings_without_counterpart_are_refused() -> None:
    name = "producer.override.interceptor.classes"
    assert "no counterpart" in check_options({**MINIMUM, name: "x"})[name][0]


def test_a_connectors_own_converter_drops_the_workers_options() -> None:
    worker = {"key.converter": "K", "key.converter.x": "1", "value.converter": "V", "value.converter.y": "2"}
    config = read_connector_config("s", {**MINIMUM, "value.converter": "W"}, worker, run_id="r")
    assert config.converters == {"key.converter": "K", "key.converter.x": "1", "value.converter": "W"}


def test_include_and_exclude_exclude_each_other() -> None:
    problems = check_options({**MINIMUM, "table.include.list": "a", "table.exclude.list": "b"})
    assert list(problems) == ["table.exclude.list"]


def test_every_problem_is_in_one_message() -> None:
    with pytest.raises(OptionError, match=r"database\.port.*snapshot\.mode|snapshot\.mode.*database\.port"):
        read(**{"database.port": "x", "snapshot.mode": "y"})


def test_passwords_are_known_by_name() -> None:
    config = {**MINIMUM, "value.converter.basic.auth.user.info": "a:b", "database.sslpassword": "x"}
    assert passwords(config) == {
        "database.password",
        "database.sslpassword",
        "value.converter.basic.auth.user.info",
    }


def test_retry_options() -> None:
    retry = read_retry_options({"errors.max.retries": "3", "errors.retry.delay.max.ms": "2000"})
    assert (retry.attempts, retry.first_seconds, retry.longest_seconds) == (3, 0.3, 2.0)


@pytest.mark.listing
def test_no_option_is_in_two_tables() -> None:
    assert not OPTIONS.keys() & FIXED.keys()
    assert not OPTIONS.keys() & NOT_IMPLEMENTED
    assert not FIXED.keys() & NOT_IMPLEMENTED


@pytest.mark.listing
def test_the_documentation_has_every_option_in_its_place() -> None:
    page = Path(__file__).parents[3] / "docs" / "debezium-compatibility.md"
    obeyed, rest = page.read_text().split("## Only one value")
    fixed, rest = rest.split("## Refused by name")
    for names, part in ((OPTIONS, obeyed), (FIXED, fixed), (NOT_IMPLEMENTED, rest)):
        assert [name for name in names if f"| `{name}` |" not in part] == []


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("io.debezium.connector.postgresql.PostgresConnector", True),
        ("PostgresConnector", True),
        ("Postgres", True),
        *(
            (name, False)
            for name in (
                "PostgresSource", "postgres", "postgresconnector", "postgresql.PostgresConnector", "",
                "io.debezium.connector.postgresql.Postgres", "io.debezium.connector.oracle.OracleConnector",
            )
        ),
    ],
)  # fmt: skip
def test_every_place_has_the_same_names_of_the_connector_s_class(name: Any, ours: Any) -> None:
    """As Kafka Connect has them (tests/conformance asks it): one that is found is valid, and is run."""
    config = MINIMUM | {"connector.class": name}
    assert ("connector.class" not in check_options(config)) is ours
    assert is_ours(config) is ours
    plugin = find_plugin(name)
    assert (plugin is not None and plugin.kind == "source") is ours
    if ours:
        require_connector_class(config)
        assert read_connector_config("c", config, {}, run_id="r").name == "c"
    else:
        with pytest.raises(OptionError, match="Failed to find any class"):
            require_connector_class(config)
