"""Options of the connector itself: each of Debezium's has its state here, and those that are implemented do the same."""

from collections.abc import Callable

from side_by_side import CONNECTOR_CLASS, Pair, rest, until

from tidings_capture.postgres.settings.options import check_options


def test_every_option_of_debeziums_has_its_state_here(connect_url: str) -> None:
    """What the real connector calls its options, and its defaults, is known here; the page of options says the rest."""
    _, definitions = rest(f"{connect_url}/connector-plugins/{CONNECTOR_CLASS}/config")
    names = {
        d["name"].replace("(d+)", "3").replace("([^.]+)", "MD5").replace("(.+)", "s"): d for d in definitions
    }
    assert len(names) > 150
    unknown = [
        name for name in names if any("not an option" in p for p in check_options({name: "x"}).get(name, []))
    ]
    assert unknown == []
    refused = {}
    for name, definition in names.items():
        problems = check_options({name: definition["default_value"] or ""}).get(name, [])
        if (
            definition["default_value"]
            and not any("is not implemented here" in p for p in problems)
            and problems
        ):
            refused[name] = definition["default_value"]
    # Debezium's default needs an extension on the server that managed databases do not have.
    assert refused == {"plugin.name": "decoderbufs"}


def test_options_of_the_connector_itself(pair: Callable[..., Pair]) -> None:
    """Publication, replica identity, topics by expressions and groups, heartbeat's action, headers, tombstones."""
    setup = """
        CREATE TABLE orders_1 (id int PRIMARY KEY, a text, b text);
        CREATE TABLE orders_2 (id int PRIMARY KEY, a text);
        CREATE TABLE keyless (a text);
        CREATE TABLE left_out (id int PRIMARY KEY);
        CREATE TABLE beats (who text PRIMARY KEY);
    """
    options = {
        "table.include.list": "public.orders_.,public.keyless",
        "publication.autocreate.mode": "filtered",
        "replica.identity.autoset.values": "public.orders_1:FULL,public.keyless:FULL",
        "topic.naming.strategy": "io.debezium.schema.SchemaRegexTopicNamingStrategy",
        "topic.regex": r"(.*)\.orders_(\d)",
        "topic.replacement": "$1.all_orders",
        "topic.key.field.name": "origin",
        "topic.key.field.regex": r".*\.(\w+)",
        "topic.key.field.replacement": "$1",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.groups": "kept",
        "topic.creation.kept.include": r".*\.all_orders",
        "topic.creation.kept.cleanup.policy": "compact",
        "topic.creation.kept.partitions": "3",
        "heartbeat.interval.ms": "200",
        "heartbeat.action.query": "INSERT INTO beats VALUES (current_setting('application_name') || '{base}') ON CONFLICT DO NOTHING",
        "database.initial.statements": "SET search_path = public; SET lock_timeout = 5000",
        "extended.headers.enabled": "false",
        "tombstones.on.delete": "false",
        "skipped.operations": "t",
        # Keys without schemas are the same for both, and so are their partitions.
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    both = pair(options, setup)
    both.run(
        [
            "INSERT INTO orders_1 VALUES (1, 'a', 'b'), (2, 'c', 'd')",
            "INSERT INTO orders_2 VALUES (1, 'a')",
            "INSERT INTO left_out VALUES (1)",
            "UPDATE orders_1 SET a = 'z' WHERE id = 1",
            "UPDATE orders_1 SET id = 3 WHERE id = 1",
            "DELETE FROM orders_1",
            "INSERT INTO keyless VALUES ('a')",
            "DELETE FROM keyless",
            "TRUNCATE orders_2",
        ]
    )
    both.compare()
    both.topic_settings()
    beaten = "SELECT count(DISTINCT right(who, 9)) FROM beats"
    until("both have run the action", lambda: both.connection.execute(beaten).fetchone() == (2,))
    published = "SELECT pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication WHERE pubname = %s"
    mine, theirs = (
        both.connection.execute(published, [side.base]).fetchone() for side in (both.mine, both.theirs)
    )
    assert mine == theirs == (True, True, True, False)
    tables = "SELECT tablename::text FROM pg_publication_tables WHERE pubname = %s ORDER BY 1"
    mine, theirs = (
        both.connection.execute(tables, [side.base]).fetchall() for side in (both.mine, both.theirs)
    )
    assert mine == theirs


def test_a_publication_without_tables(pair: Callable[..., Pair]) -> None:
    """Who takes no_tables adds them by himself; so does who forbids to create a publication."""
    tables = "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)"
    both = pair({"publication.autocreate.mode": "no_tables"}, tables)
    for side in (both.mine, both.theirs):
        both.connection.execute(f"ALTER PUBLICATION {side.base} ADD TABLE a, zzend")
    both.run(["INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)"])
    assert {topic.rpartition(".")[2] for topic, _ in both.compare()} == {"a", "zzend"}
