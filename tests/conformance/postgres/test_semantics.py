"""Semantics, side by side: the same JSON to both REST APIs, the same SQL, the same records."""

from collections.abc import Callable

from tidings_connect.data.records import Record
from tidings_stack.connect import avro_converter_settings


def test_replica_identities_and_keys(compare: Callable[..., dict[tuple[str, int], list[Record]]]) -> None:
    setup = """
        CREATE TABLE by_default (id int PRIMARY KEY, name text NOT NULL, n int);
        CREATE TABLE by_full (id int PRIMARY KEY, name text NOT NULL, n int);
        ALTER TABLE by_full REPLICA IDENTITY FULL;
        CREATE TABLE by_index (id int PRIMARY KEY, code text NOT NULL, n int);
        CREATE UNIQUE INDEX by_index_code ON by_index (code);
        ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_code;
        CREATE TABLE by_nothing (id int PRIMARY KEY, n int);
        ALTER TABLE by_nothing REPLICA IDENTITY NOTHING;
        CREATE TABLE no_key (a int, b text);
        ALTER TABLE no_key REPLICA IDENTITY FULL;
        CREATE TABLE unique_only (a int, b text NOT NULL UNIQUE, c int NOT NULL UNIQUE);
        ALTER TABLE unique_only REPLICA IDENTITY FULL;
        CREATE TABLE unique_nullable (a int UNIQUE, b text);
        ALTER TABLE unique_nullable REPLICA IDENTITY FULL;
        CREATE TABLE unique_odd (a int, b text, c int, "D d" int);
        CREATE UNIQUE INDEX a_expression ON unique_odd (lower(b));
        CREATE UNIQUE INDEX b_two ON unique_odd (c, "D d") INCLUDE (b);
        CREATE UNIQUE INDEX c_partial ON unique_odd (a) WHERE a > 5;
        CREATE TABLE unique_partial (a int, b text);
        CREATE UNIQUE INDEX partial ON unique_partial (a) WHERE a > 5;
    """
    changes = [
        "INSERT INTO by_default VALUES (1, 'a', 1), (2, 'b', 2)",
        "UPDATE by_default SET n = 3 WHERE id = 1",
        "UPDATE by_default SET id = 10 WHERE id = 1",
        "DELETE FROM by_default",
        "INSERT INTO by_full VALUES (1, 'a', 1), (2, 'b', NULL)",
        "UPDATE by_full SET n = 3 WHERE id = 1",
        "UPDATE by_full SET id = 10 WHERE id = 1",
        "DELETE FROM by_full",
        "INSERT INTO by_index VALUES (1, 'a', 1), (2, 'b', 2)",
        "UPDATE by_index SET n = 3 WHERE id = 1",
        "UPDATE by_index SET id = 10 WHERE id = 1",
        "UPDATE by_index SET code = 'z' WHERE id = 10",
        "DELETE FROM by_index",
        "INSERT INTO by_nothing VALUES (1, 1)",
        "INSERT INTO no_key VALUES (1, 'a')",
        "UPDATE no_key SET b = 'b'",
        "DELETE FROM no_key",
        "INSERT INTO unique_only VALUES (1, 'a', 1)",
        "UPDATE unique_only SET b = 'b'",
        "UPDATE unique_only SET c = 2",
        "DELETE FROM unique_only",
        "INSERT INTO unique_nullable VALUES (1, 'a'), (NULL, 'b')",
        "UPDATE unique_nullable SET a = 2 WHERE a = 1",
        "DELETE FROM unique_nullable",
        "INSERT INTO unique_odd VALUES (1, 'a', 2, 3)",
        "INSERT INTO unique_partial VALUES (1, 'a'), (1, 'b')",
    ]
    compare({"provide.transaction.metadata": "true"}, setup, [changes])


def test_names_and_topics(compare: Callable[..., dict[tuple[str, int], list[Record]]]) -> None:
    """Quoted and odd names with both adjustments, another delimiter, and other names of the connector's own topics."""
    setup = """
        CREATE SCHEMA "Odd schema";
        CREATE TABLE "Odd schema"."T-1 é" ("1st" int PRIMARY KEY, "a-b.c" text, "äß" text, under_score int, "😀x" int);
        CREATE TABLE "UPPER" ("Id" int PRIMARY KEY, "select" text);
        CREATE TYPE "Mood-x" AS ENUM ('a', 'b');
        CREATE TABLE plain (id int PRIMARY KEY, m "Mood-x");
    """
    changes = [
        """INSERT INTO "Odd schema"."T-1 é" VALUES (1, 'x', 'y', 2, 3)""",
        """UPDATE "Odd schema"."T-1 é" SET "1st" = 2""",
        """INSERT INTO "UPPER" VALUES (1, 'x')""",
        """INSERT INTO plain VALUES (1, 'a')""",
    ]
    names = {
        "provide.transaction.metadata": "true",
        "topic.delimiter": "_",
        "topic.transaction": "tx",
        "topic.heartbeat.prefix": "beats",
        "heartbeat.interval.ms": "100",
    }
    for mode, more in (
        ("avro", {"topic.heartbeat.name": "{base}-all-heartbeat"}),
        ("avro_unicode", {"topic.naming.strategy": "io.debezium.schema.SchemaUnicodeTopicNamingStrategy"}),
    ):
        modes = {"schema.name.adjustment.mode": mode, "field.name.adjustment.mode": mode}
        compare(names | modes | more, setup if mode == "avro" else [], [changes], suffix="-x.y")
        changes = [change.replace("(1,", "(5,").replace("= 2", '= 6 WHERE "1st" = 5') for change in changes]


def test_masks_hashes_and_truncation(compare: Callable[..., dict[tuple[str, int], list[Record]]]) -> None:
    setup = """
        CREATE TYPE mood AS ENUM ('happy', 'sad');
        CREATE DOMAIN short AS varchar(10);
        CREATE TABLE masked (
            id int PRIMARY KEY, m_text text NOT NULL, m_null text, m_int int NOT NULL, m_char char(5), m_mood mood,
            m_default text DEFAULT 'd', m_bytes bytea, m_json json, m_domain short, m_array text[],
            h_text text NOT NULL, h_char char(12), h_varchar varchar(20), h_null text, h_int int, h_mood mood,
            v_text text, v_md5 text,
            t_text text, t_varchar varchar(4), t_varchar9 varchar(9), t_bytes bytea, t_int int, t_big bigint,
            t_json jsonb, t_uuid uuid, t_numeric numeric(8,2), t_time timestamptz, t_array text[], t_bits bit(3));
        CREATE TABLE whole (id text PRIMARY KEY, note text);
        ALTER TABLE whole REPLICA IDENTITY FULL;
        ALTER TABLE masked ALTER t_text SET STORAGE EXTERNAL, ALTER m_text SET STORAGE EXTERNAL;
    """
    values = """INSERT INTO masked VALUES (1, 'secret', NULL, 5, 'abc', 'happy', 'e', 'bytes', '{}', 'dom', '{a}',
        'secret', 'hash me', 'varchar', NULL, 7, 'sad', 'v2', 'md5', 'long x😀 text', 'abcd', 'abcdefghi', 'longbytes', 12345,
        12345678901, '{"a": 1}', '76019d1a-ad2e-4b22-96e9-1a6d6543c818', 12345.67, '2026-01-01', '{abcdefgh}', B'101')"""
    changes = [
        values,
        "INSERT INTO masked (id, m_text, m_int, h_text) VALUES (2, 'secret', 5, E'é\U0001f600 nul')",
        "UPDATE masked SET m_text = repeat('x', 9000), t_text = repeat('x', 9000) WHERE id = 1",
        "UPDATE masked SET m_int = 6 WHERE id = 1",
        "DELETE FROM masked",
        "INSERT INTO whole VALUES ('key', 'note')",
        "UPDATE whole SET note = 'changed'",
        "UPDATE whole SET id = 'other key'",
        "DELETE FROM whole",
    ]
    options = {
        "column.mask.with.7.chars": r"public\.masked\.m_.*,public\.whole\.note",
        "column.mask.with.0.chars": "public.nothing.x",
        "column.mask.hash.SHA-256.with.salt.CzQMA0cB5K": r"public\.masked\.h_.*,public\.whole\.id",
        "column.mask.hash.v2.SHA-512.with.salt.a.b": "public.masked.v_text",
        "column.mask.hash.v2.MD5.with.salt.s": "PUBLIC.masked.v_md5",
        "column.truncate.to.6.chars": r"public\.masked\.t_.*",
    }
    compare(options, setup, [changes])


def test_source_types_in_schemas(compare: Callable[..., dict[tuple[str, int], list[Record]]]) -> None:
    setup = """
        CREATE TYPE mood AS ENUM ('happy', 'sad');
        CREATE DOMAIN short AS varchar(10);
        CREATE TABLE described (
            id serial PRIMARY KEY, c_text text, c_varchar varchar(7), c_char char(3), c_numeric numeric(8,2), c_free numeric,
            c_time time(3), c_stamp timestamptz, c_stamp0 timestamp(0), c_date date, c_mood mood, c_domain short, c_bits bit(4),
            c_var varbit(5), c_uuid uuid, c_json jsonb, c_real float4, c_double float8, c_array text[], c_nums numeric(5,1)[],
            c_interval interval, c_big bigint, c_small smallint, c_bool bool, c_bytes bytea, c_timetz timetz(2));
        CREATE TABLE by_type (id int PRIMARY KEY, a text, b numeric(5,1), c varchar(5), d int);
    """
    compare(
        {
            "column.propagate.source.type": "public.described..*",
            "datatype.propagate.source.type": r".+\.text,.+\.numeric.*,.+\.varchar.*",
        },
        setup,
        [["INSERT INTO described DEFAULT VALUES", "INSERT INTO by_type VALUES (1, 'a', 1.5, 'c', 1)"]],
    )


def test_message_keys_and_excluded_columns(
    compare: Callable[..., dict[tuple[str, int], list[Record]]],
) -> None:
    setup = """
        CREATE TABLE own_key (id int PRIMARY KEY, a text NOT NULL, b int, c int);
        CREATE TABLE full_key (id int PRIMARY KEY, a text NOT NULL, b int, c int);
        ALTER TABLE full_key REPLICA IDENTITY FULL;
        CREATE TABLE hidden_key (id int PRIMARY KEY, a text, b int);
        CREATE TABLE no_key (a int, b text);
        CREATE TABLE defaults (id int PRIMARY KEY, a boolean DEFAULT false, b int NOT NULL DEFAULT 7);
        ALTER TABLE defaults REPLICA IDENTITY FULL;
    """
    changes = [
        "INSERT INTO defaults VALUES (1)",
        "UPDATE defaults SET a = NULL, b = 7",  # a change, although the converter writes null as the default
        "UPDATE defaults SET a = NULL",
        "INSERT INTO own_key VALUES (1, 'a', 1, 1), (2, 'b', NULL, 1)",
        "UPDATE own_key SET c = 2 WHERE id = 1",
        "UPDATE own_key SET a = 'z' WHERE id = 1",
        "UPDATE own_key SET id = 9 WHERE id = 1",
        "DELETE FROM own_key",
        "INSERT INTO full_key VALUES (1, 'a', 1, 1)",
        "UPDATE full_key SET c = 2",
        "UPDATE full_key SET b = 2",
        "UPDATE full_key SET id = 9",
        "UPDATE full_key SET c = 2",
        "DELETE FROM full_key",
        "INSERT INTO hidden_key VALUES (1, 'a', 1)",
        "UPDATE hidden_key SET id = 2",
        "DELETE FROM hidden_key",
        "INSERT INTO no_key VALUES (1, 'a')",
    ]
    compare(
        {
            "message.key.columns": r"public\.(own|full)_key:b,a; public.no_key:a",
            "column.exclude.list": r"public\.hidden_key\.id,public.full_key.a",
            "skip.messages.without.change": "true",
            "provide.transaction.metadata": "true",
            "skipped.operations": "none",
        },
        setup,
        [changes],
    )


def test_partitions_truncates_and_unchanged_values(
    compare: Callable[..., dict[tuple[str, int], list[Record]]],
) -> None:
    setup = """
        CREATE TABLE parted (id int, day date NOT NULL, note text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
        CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
        CREATE TABLE parted_2 (note text, id int NOT NULL, day date NOT NULL, PRIMARY KEY (id, day));
        ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
        CREATE TABLE parent (id int PRIMARY KEY);
        CREATE TABLE child (id int PRIMARY KEY, parent_id int REFERENCES parent);
        CREATE TABLE alone (id int PRIMARY KEY);
        CREATE TABLE base (id int PRIMARY KEY, a text);
        CREATE TABLE inheriting (b int, PRIMARY KEY (id)) INHERITS (base);
        CREATE TABLE toasted (
            id int PRIMARY KEY, n int, t text, required text NOT NULL DEFAULT 'x', b bytea, j jsonb, a text[], i int[], bi bigint[],
            u uuid[], d date[], v varchar(9000), x xml, bp char(5000));
        ALTER TABLE toasted ALTER t SET STORAGE EXTERNAL, ALTER required SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL,
            ALTER j SET STORAGE EXTERNAL, ALTER a SET STORAGE EXTERNAL, ALTER i SET STORAGE EXTERNAL,
            ALTER bi SET STORAGE EXTERNAL, ALTER u SET STORAGE EXTERNAL, ALTER d SET STORAGE EXTERNAL,
            ALTER v SET STORAGE EXTERNAL, ALTER x SET STORAGE EXTERNAL, ALTER bp SET STORAGE EXTERNAL;
    """
    changes = [
        "INSERT INTO parted VALUES (1, '2026-01-15', 'a'), (2, '2026-02-15', 'b')",
        "UPDATE parted SET note = 'c' WHERE id = 1",
        "UPDATE parted SET day = '2026-02-16' WHERE id = 1",
        "DELETE FROM parted WHERE id = 2",
        "TRUNCATE parted",
        "INSERT INTO parent VALUES (1)",
        "INSERT INTO child VALUES (1, 1)",
        "INSERT INTO alone VALUES (1)",
        "TRUNCATE parent CASCADE",
        "BEGIN; INSERT INTO parent VALUES (2); TRUNCATE alone, child, parent RESTART IDENTITY; INSERT INTO alone VALUES (2); COMMIT",
        "INSERT INTO inheriting VALUES (1, 'a', 2)",
        "UPDATE base SET a = 'z'",
        "DELETE FROM base",
        """INSERT INTO toasted SELECT 1, 1, repeat('x', 9000), repeat('y', 9000), convert_to(repeat('x', 9000), 'UTF8'),
            jsonb_build_object('a', repeat('z', 9000)), array_fill('t'::text, '{3000}'), array_fill(7, '{3000}'),
            array_fill(7::bigint, '{3000}'), array_fill('76019d1a-ad2e-4b22-96e9-1a6d6543c818'::uuid, '{900}'),
            array_fill('2026-01-01'::date, '{3000}'), repeat('v', 9000), ('<a>' || repeat('x', 9000) || '</a>')::xml,
            repeat('c', 5000)""",
        "UPDATE toasted SET n = 2",
        "ALTER TABLE toasted REPLICA IDENTITY FULL",
        "UPDATE toasted SET n = 3",
        "UPDATE toasted SET id = 2",
        "DELETE FROM toasted",
    ]
    shared = {"skipped.operations": "none", "provide.transaction.metadata": "true"}
    compare(shared | {"unavailable.value.placeholder": "hex:c3a4FF67"}, setup, [changes])
    changes = [change for change in changes if "toasted" not in change]
    compare(
        {
            **shared,
            "publish.via.partition.root": "true",
            "publication.autocreate.mode": "filtered",
            "table.include.list": "public.parted,public.parent,public.alone",
        },
        "DROP TABLE toasted",
        [changes],
    )


def test_schema_changes_in_the_stream(compare: Callable[..., dict[tuple[str, int], list[Record]]]) -> None:
    """Every step is read before the next one, because a connector asks the catalog what a table is like now.

    A table's change is committed before its rows are written: PostgreSQL sends a transaction a moment before other
    sessions see it, and Debezium asks the catalog at once. Of one transaction that has both, on a busy machine, it
    gave keys and defaults of before (ours waits until the transaction is seen).
    """
    setup = """
        CREATE TYPE mood AS ENUM ('happy');
        CREATE TABLE changing (id int PRIMARY KEY, a int, b text DEFAULT 'b');
        CREATE TABLE defaults (id int PRIMARY KEY, d text DEFAULT 'd');
        CREATE TABLE keyed (id int PRIMARY KEY, d text NOT NULL);
        CREATE TABLE feeling (id int PRIMARY KEY, m mood);
        CREATE TABLE renamed_away (id int PRIMARY KEY);
        CREATE TABLE at_once (id int PRIMARY KEY, a int);
    """
    steps = [
        [
            "INSERT INTO changing VALUES (1, 1)",
            "INSERT INTO defaults VALUES (1, 'x')",
            "INSERT INTO keyed VALUES (1, 'x')",
            "INSERT INTO feeling VALUES (1, 'happy')",
            "INSERT INTO renamed_away VALUES (1)",
            "INSERT INTO at_once VALUES (1, 1)",
        ],
        [
            "ALTER TABLE changing ADD COLUMN c numeric(5,2) NOT NULL DEFAULT 1.5",
            "INSERT INTO changing VALUES (2, 2)",
            "ALTER TABLE defaults ALTER COLUMN d SET DEFAULT 'other', ADD e int",
            "INSERT INTO defaults (id) VALUES (2)",
            "ALTER TABLE keyed DROP CONSTRAINT keyed_pkey, ADD PRIMARY KEY (id, d)",
            "INSERT INTO keyed VALUES (2, 'key')",
            "ALTER TYPE mood ADD VALUE 'sad'",
            "INSERT INTO feeling VALUES (2, 'sad'), (3, 'happy')",
            "ALTER TABLE renamed_away RENAME TO other_name",
            "INSERT INTO other_name VALUES (2)",
        ],
        [
            "ALTER TABLE changing DROP COLUMN a",
            "UPDATE changing SET b = 'c' WHERE id = 1",
            "ALTER TABLE defaults ALTER COLUMN d DROP DEFAULT, ADD f int",
            "INSERT INTO defaults VALUES (3, 'd')",
            "ALTER TABLE keyed DROP CONSTRAINT keyed_pkey",
            "INSERT INTO keyed VALUES (3, 'no key')",
            "CREATE TABLE brand_new (id int PRIMARY KEY, m mood)",
            "INSERT INTO brand_new VALUES (1, 'sad')",
            "CREATE SCHEMA elsewhere",
            "ALTER TABLE other_name SET SCHEMA elsewhere",
            "INSERT INTO elsewhere.other_name VALUES (3)",
        ],
        [
            "ALTER TABLE changing RENAME COLUMN b TO d",
            "DELETE FROM changing WHERE id = 1",
            "ALTER TABLE defaults ALTER COLUMN d SET NOT NULL, ADD g int[] DEFAULT '{1}'",
            "INSERT INTO defaults VALUES (4, 'd')",
            "ALTER TABLE keyed REPLICA IDENTITY FULL",
            "UPDATE keyed SET d = 'full' WHERE id = 3",
            """BEGIN; INSERT INTO at_once VALUES (2, 2); ALTER TABLE at_once ADD b text;
                INSERT INTO at_once VALUES (3, 3, 'b'); ALTER TABLE at_once DROP a; UPDATE at_once SET b = 'c' WHERE id = 3;
                COMMIT""",
        ],
        [
            "ALTER TABLE changing ALTER COLUMN c TYPE text",
            "INSERT INTO changing VALUES (3, 'd', 'c')",
            "TRUNCATE changing, keyed",
        ],
    ]
    compare({"skipped.operations": "none", "provide.transaction.metadata": "true"}, setup, steps)


def test_snapshot_then_stream(compare: Callable[..., dict[tuple[str, int], list[Record]]]) -> None:
    """The same tables as the snapshot sees them: keys, masks, names, skipped and included collections."""
    setup = """
        CREATE TYPE mood AS ENUM ('happy', 'sad');
        CREATE TABLE a_first (id serial PRIMARY KEY, t text NOT NULL, secret varchar(20), cut text, m mood, gone int, odd int);
        CREATE TABLE b_key (id int, code text UNIQUE, n numeric(5,2), hidden int NOT NULL);
        CREATE TABLE c_left_out (id int PRIMARY KEY);
        CREATE TABLE d_parted (id int, day date NOT NULL, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
        CREATE TABLE d_parted_1 PARTITION OF d_parted FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
        INSERT INTO a_first VALUES (1, 'x', 'secret', 'long enough', 'sad', 1), (2, 'y', NULL, NULL, NULL, 2);
        INSERT INTO b_key VALUES (1, 'a', 1.5, 1), (2, 'b', NULL, 2);
        INSERT INTO c_left_out VALUES (1);
        INSERT INTO d_parted VALUES (1, '2026-01-15');
    """
    compare(
        {
            "snapshot.mode": "initial",
            "snapshot.include.collection.list": "public.a_.*,public.b_key,public.d_parted_1,public.zzend",
            "column.mask.hash.SHA-256.with.salt.s": "public.a_first.secret",
            "column.truncate.to.4.chars": "public.a_first.cut",
            "column.propagate.source.type": "public.a_first.(id|t|m|odd),public.b_key.*",
            "column.exclude.list": "public.a_first.gone,public.b_key.hidden",
            "schema.name.adjustment.mode": "avro",
        },
        setup,
        [
            [
                "INSERT INTO a_first (id, t) VALUES (3, 'streamed')",
                "INSERT INTO b_key VALUES (3, 'c', 1, 3)",
                "INSERT INTO c_left_out VALUES (2)",
            ]
        ],
    )


def test_avro_with_names_that_it_does_not_allow(
    compare: Callable[..., dict[tuple[str, int], list[Record]]], registry_url: str
) -> None:
    """A dashed prefix, an odd table and odd columns, as Debezium writes them with Apicurio's converter."""
    setup = """
        CREATE TABLE "odd-table" ("a-b" int PRIMARY KEY, "1st" text, "äß" text);
        CREATE TABLE whole (id int PRIMARY KEY, n numeric(5,2), secret text);
        ALTER TABLE whole REPLICA IDENTITY FULL;
        INSERT INTO whole VALUES (0, 1.5, 'before');
    """
    changes = [
        """INSERT INTO "odd-table" VALUES (1, 'x', 'y')""",
        """UPDATE "odd-table" SET "a-b" = 2""",
        "INSERT INTO whole VALUES (1, 1.5, 'secret')",
        "UPDATE whole SET n = 2 WHERE id = 1",
        "DELETE FROM whole",
    ]
    compare(
        {
            **avro_converter_settings(registry_url),
            "snapshot.mode": "initial",
            "provide.transaction.metadata": "true",
            "schema.name.adjustment.mode": "avro",
            "column.mask.with.4.chars": "public.whole.secret",
        },
        setup,
        [changes],
        suffix="-x",
    )
