"""Every option is obeyed or refused by name; a URL's parameters too, and no password of it is shown."""

import pytest

from tidings_connect.config.option import Option
from tidings_connect.config.plugins import find_connector
from tidings_sinks.jdbc.connector import JdbcSinkConnector
from tidings_sinks.jdbc.databases.mariadb_servers import MYSQL
from tidings_sinks.jdbc.options import OPTIONS, REFUSED
from tidings_sinks.jdbc.settings import read_settings
from tidings_sinks.jdbc.url import UrlError, read_url

CONFIG = {
    "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
    "topics": "orders",
    "connection.url": "jdbc:postgresql://db/shop",
}
DEBEZIUM = (
    "connection.provider connection.url connection.username connection.password connection.pool.min_size"
    " connection.pool.max_size connection.pool.acquire_increment connection.pool.timeout insert.mode delete.enabled"
    " truncate.enabled collection.name.format primary.key.mode primary.key.fields schema.evolution quote.identifiers"
    " collection.naming.strategy column.naming.strategy collection.table.format use.time.zone"
    " dialect.postgres.postgis.schema dialect.postgres.unnest.insert.enabled dialect.sqlserver.identity.insert batch.size"
    " field.include.list field.exclude.list flush.max.retries flush.retry.delay.ms connection.restart.on.errors"
    " cloudevents.schema.name.pattern use.reduction.buffer table.name.format database.time_zone table.naming.strategy"
)


def problems(**changes: str) -> dict[str, list[str]]:
    return JdbcSinkConnector().problems(
        CONFIG | {name.replace("_", "."): text for name, text in changes.items()}
    )


def test_it_is_found_by_debezium_s_class_and_its_short_names() -> None:
    for name in (CONFIG["connector.class"], "JdbcSinkConnector", "JdbcSink"):
        found = find_connector(name)
        assert isinstance(found, JdbcSinkConnector), name
    assert problems() == {}


@pytest.mark.listing
def test_each_of_debezium_s_options_is_obeyed_or_refused_by_name() -> None:
    known = {option.name for option in OPTIONS}
    for name in DEBEZIUM.split():
        assert (name in known) != (name in REFUSED), name
        if name in REFUSED:
            assert REFUSED[name] in JdbcSinkConnector().problems(CONFIG | {name: "x"})[name][0]
    assert "hibernate.c3p0.timeout" in problems(hibernate_c3p0_timeout="5")


@pytest.mark.listing
@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_each_option_says_what_it_means(option: Option) -> None:
    assert option.documentation.endswith(".")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("insert.mode", "replace"),
        ("insert.mode", "upsert"),
        ("insert.mode", "update"),
        ("delete.enabled", "true"),
        ("delete.enabled", "1"),
        ("primary.key.mode", "key"),
        ("primary.key.mode", "record_header"),
        ("primary.key.fields", "id"),
        ("schema.evolution", "advanced"),
        ("batch.size", "0"),
        ("use.time.zone", "Mars/Olympus"),
        ("flush.max.retries", "-1"),
        ("flush.max.retries", "121"),
        ("connection.restart.on.errors", "false"),
        ("connection.url", "jdbc:oracle:thin:@db/shop"),
        ("connection.url", ""),
        ("tidings.positions.table", "a;b"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: str) -> None:
    found = JdbcSinkConnector().problems(CONFIG | {name: value})
    wanted = "primary.key.fields" if value == "record_header" else name
    assert list(found) == [wanted]


def test_former_names_count_and_exclude_the_new_ones() -> None:
    config = CONFIG | {"table.name.format": "t_${topic}", "database.time_zone": "Europe/Berlin"}
    settings = read_settings("copy", config)
    assert (settings.name_format, settings.zone.key, settings.group) == (
        "t_${topic}",
        "Europe/Berlin",
        "connect-copy",
    )
    found = JdbcSinkConnector().problems(config | {"collection.name.format": "x", "use.time.zone": "UTC"})
    assert set(found) == {"table.name.format", "database.time_zone"}
    both = {"field.include.list": "a", "field.exclude.list": "b"}
    assert set(JdbcSinkConnector().problems(CONFIG | both)) == {"field.exclude.list"}


@pytest.mark.parametrize(
    ("url", "parameters"),
    [
        ("jdbc:postgresql://db:5433/shop", {"host": "db", "port": "5433", "dbname": "shop"}),
        ("postgresql://db/shop", {"host": "db", "port": "5432", "dbname": "shop"}),
        ("postgresql+psycopg://db/a%20b", {"host": "db", "port": "5432", "dbname": "a b"}),
        (
            "jdbc:postgresql://a:1,b:2/s?targetServerType=primary&ssl=true&currentSchema=x,y&ApplicationName=z",
            {"host": "a,b", "port": "1,2", "dbname": "s", "target_session_attrs": "primary", "sslmode": "verify-full",
             "options": "-csearch_path=x,y", "application_name": "z"},
        ),
        ("jdbc:postgresql://[::1]:5433/s", {"host": "::1", "port": "5433", "dbname": "s"}),
        ("jdbc:postgresql:shop", {"host": "localhost", "port": "5432", "dbname": "shop"}),
        ("jdbc:mysql://db/shop?useSSL=true&allowPublicKeyRetrieval=true&serverTimezone=UTC&connectTimeout=2500",
         {"host": "db", "port": "3306", "database": "shop", "ssl_mode": "trust", "connect_timeout": "2"}),
        ("jdbc:mariadb://db/shop?useSSL=false", {"host": "db", "port": "3306", "database": "shop", "ssl_mode": "disable"}),
        ("jdbc:sqlite:/var/lib/a.db", {"file": "/var/lib/a.db"}),
        ("sqlite:////var/lib/a.db", {"file": "/var/lib/a.db"}),
        ("sqlite:///a.db", {"file": "a.db"}),
    ],
)  # fmt: skip
def test_urls(url: str, parameters: dict[str, str]) -> None:
    assert dict(read_url(url).parameters) == parameters


def test_the_user_may_stand_in_the_url() -> None:
    assert read_url("postgresql://me@db/shop").user == "me"
    assert read_url("jdbc:postgresql://db/shop?user=me").user == "me"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@db/shop",
        "jdbc:postgresql://db/shop?user=me&password=hunter2",
        "jdbc:postgresql://db/shop?hunter2=1",
        "jdbc:postgresql://db:hunter2/shop",
        "jdbc:sqlite::memory:",
        "jdbc:sqlite:",
        "jdbc:sqlite:/a?mode=hunter2",
        "jdbc:mysql://db/shop?serverTimezone=hunter2",
        "jdbc:oracle:thin:@hunter2",
        "hunter2",
    ],
)
def test_urls_that_are_refused_without_being_told(url: str) -> None:
    with pytest.raises(UrlError) as caught:
        read_url(url)
    told = str(caught.value).replace("parameter hunter2", "")
    assert "hunter2" not in told
    assert "connection.url" in JdbcSinkConnector().problems(CONFIG | {"connection.url": url})


@pytest.mark.parametrize(
    ("version", "is_old"),
    [
        ("8.0.16", True), ("5.7.44-log", True), ("8.0.11-TiDB-v8.5.0", True), ("8.0.17", False), ("8.0.mysql_aurora.3.04.0", False),
        ("9.7.4-2", False), ("10.0.1", False),
    ],
)  # fmt: skip
def test_the_versions_of_mysql_that_can_be_written(version: str, is_old: bool) -> None:
    assert MYSQL.is_newer_than(version) is is_old
