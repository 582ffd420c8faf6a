"""Types that change while the connectors run, side by side."""


def test_labels_that_an_enum_gets_later(compare):
    setup = """
        CREATE TYPE mood AS ENUM ('sad', 'happy');
        CREATE TYPE tone AS ENUM ('low');
        CREATE TABLE feelings (id int PRIMARY KEY, m mood, t tone NOT NULL);
    """
    first = ["INSERT INTO feelings VALUES (1, 'sad', 'low')"]
    then = [
        "ALTER TYPE mood ADD VALUE 'so-so' BEFORE 'happy'",
        "INSERT INTO feelings VALUES (2, 'happy', 'low')",
        "INSERT INTO feelings VALUES (3, 'so-so', 'low'), (4, 'happy', 'low')",
    ]
    last = [
        "ALTER TYPE tone ADD VALUE 'high'",
        "UPDATE feelings SET t = 'high', m = 'sad' WHERE id = 3",
        "DELETE FROM feelings WHERE id < 4",
    ]
    compare({"provide.transaction.metadata": "true"}, setup, [first, then, last])
