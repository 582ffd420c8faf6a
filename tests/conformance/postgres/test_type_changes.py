"""Types that change while the connectors run, side by side."""

from collections.abc import Callable

from tidings_connect.data.records import Record


def test_labels_that_an_enum_gets_later(compare: Callable[..., dict[tuple[str, int], list[Record]]]) -> None:
    setup = """
        CREATE TYPE mood AS ENUM ('sad', 'happy');
        CREATE TYPE tone AS ENUM ('low');
        CREATE EXTENSION hstore;
        CREATE TABLE feelings (id int PRIMARY KEY, m mood, t tone NOT NULL, at timestamp DEFAULT '2026-11-20 12:34',
            price money DEFAULT 1.5, h hstore DEFAULT 'a=>1', n numeric(5,2) DEFAULT 'NaN');
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
    options = {
        "provide.transaction.metadata": "true",
        "column.propagate.source.type": r"public\.feelings\.(m|at|price|h)",
        "datatype.propagate.source.type": r".*\.tone",
        "time.precision.mode": "isostring",
        "hstore.handling.mode": "map",
        "money.fraction.digits": "3",
        "event.converting.failure.handling.mode": "skip",
        "include.schema.comments": "true",
    }
    compare(options, setup, [first, then, last])
