"""Semantics, side by side: the same JSON to both REST APIs, the same SQL, the same records."""


def test_replica_identities_and_keys(compare):
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
    ]
    compare({"provide.transaction.metadata": "true"}, setup, [changes])
