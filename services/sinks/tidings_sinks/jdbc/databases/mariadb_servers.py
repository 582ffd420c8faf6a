"""What MariaDB and MySQL do differently as targets. Pure."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_SESSION: Final = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO',"
    " time_zone = '+00:00', innodb_lock_wait_timeout = 10, lock_wait_timeout = 10"
)
_ISOLATION: Final = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""MariaDB has a variable of MySQL's name for it from 11.1 on."""
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+){0,2}")
_MARIADB_NUMBERS: Final = re.compile(r"(\d+)\.(\d+)\.\d+-mariadb", re.IGNORECASE)
"""Before 11.0 another number stands before them."""
_SILENT_SECONDS: Final = 60
"""So long a task may stand still within a transaction: it must not hold up who follows it."""
_COLUMNS: Final = """
SELECT c.column_name, c.data_type, {generated}, t.engine
FROM information_schema.columns c JOIN information_schema.tables t
    ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = coalesce(%s, database()) AND c.table_name = %s ORDER BY c.ordinal_position"""


class Server(NamedTuple):
    """One of the two."""

    title: str
    oldest: tuple[int, ...]
    """The oldest version that was tried."""
    session: tuple[str, ...]
    """Statements that begin a session."""
    begin: tuple[str, ...]
    """Statements that begin a transaction."""
    ended: tuple[str, ...]
    """And those behind its end."""
    columns: str
    """Asks for a table's columns, by database and table."""
    grants: str
    collation: str
    """Texts are the same when their letters are: not also when only case, accents or spaces at their ends differ."""
    if_missing: str
    """Of ADD COLUMN."""
    types: Mapping[str, str]
    """MariaDB's that it does not have, by what stands for them."""
    by_expression: frozenset[str]
    """Types whose default has to be an expression."""

    @property
    def is_mysql(self) -> bool:
        """Which of the two it is."""
        return self.title == "MySQL"

    def is_newer_than(self, version: str) -> bool:
        """Whether a version is older than the oldest; a provider may put a name in the place of its third number."""
        leading = _NUMBERS.match(version)
        numbers = tuple(int(part) for part in leading[0].split(".")) if leading else ()
        return numbers < self.oldest[: len(numbers)]


MARIADB: Final = Server(
    "MariaDB",
    (10, 6),
    (f"{_SESSION}, idle_transaction_timeout = {_SILENT_SECONDS}", _ISOLATION),
    ("START TRANSACTION",),
    (),
    _COLUMNS.format(generated="c.is_generated = 'ALWAYS'"),
    "SHOW GRANTS FOR CURRENT_USER",
    "utf8mb4_nopad_bin",
    "IF NOT EXISTS ",
    {},
    frozenset(),
)
# It has no limit for a transaction alone, and a connection that rests between two should not be closed.
MYSQL: Final = Server(
    "MySQL",
    (8, 0, 17),
    (_SESSION, _ISOLATION),
    (f"SET SESSION wait_timeout = {_SILENT_SECONDS}", "START TRANSACTION"),
    ("SET SESSION wait_timeout = DEFAULT",),
    _COLUMNS.format(generated="c.generation_expression <> ''"),
    "SHOW GRANTS",
    "utf8mb4_0900_bin",
    "",
    {"uuid": "char(36)"},
    frozenset({"longtext", "longblob", "json"}),
)


_FORMER_MARIADB: Final = MARIADB._replace(types={"uuid": "char(36)"})
_FIRST_WITH_UUID: Final = (10, 7)


def server_of(version: str) -> Server:
    """Which one says that it has a version."""
    if "mariadb" not in version.lower():
        return MYSQL
    found = _MARIADB_NUMBERS.search(version)
    is_former = found is not None and (int(found[1]), int(found[2])) < _FIRST_WITH_UUID
    return _FORMER_MARIADB if is_former else MARIADB
