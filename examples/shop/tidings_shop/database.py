"""The shop's database, whichever it is: PostgreSQL (`tidings_shop.postgres`) or MariaDB or MySQL (`tidings_shop.mariadb`), by its URL.

It makes the tables, refuses a database whose tables of the same names are others, executes transactions, and reads
what the demo compares and shows. Messages name host and database, never a password or a row's values.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Self

from tidings_service.errors import Retry
from tidings_shop.errors import ShopError
from tidings_shop.mariadb import SCHEMES, MariaDbSession
from tidings_shop.postgres import PostgresSession
from tidings_shop.session import TABLES, Cell, Column, ConflictError, LogReader, Session
from tidings_shop.traffic_plan import Catalogue, KnownProduct
from tidings_shop.transactions import Abandoned, Delete, Insert, Now, Ref, Step, Transaction, Update, Value

__all__ = ["TABLES", "Applied", "LogReader", "Outcome", "ShopDatabase", "create_database"]


class Outcome(StrEnum):
    """What became of a transaction."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    """As planned."""
    CONFLICTED = "conflicted"
    """The database refused it, because somebody else works on the same rows."""
    SKIPPED = "skipped"
    """It needs a row that an earlier, refused transaction was to create."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a transaction, and the rows it wrote, by ``table.operation``."""

    outcome: Outcome
    rows: Mapping[str, int] = field(default_factory=dict)


class ShopDatabase:
    """A connection to the shop's database; a context manager.

    Args:
        url: ``postgresql://user:password@host:port/database``, or ``mysql://...`` for MariaDB and MySQL.

    Raises:
        ShopError: when it cannot be connected to (retry ``timed``), or the URL is none.
    """

    def __init__(self, url: str) -> None:
        scheme = url.partition("://")[0]
        self._session: Session = MariaDbSession(url) if scheme in SCHEMES else PostgresSession(url)
        self.name = self._session.name
        self._ids: dict[Ref, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; an open transaction is rolled back by the server."""
        self._session.close()

    # Schema

    def ensure_schema(self) -> bool:
        """Create the tables when none of them exists.

        Returns:
            Whether they have been created.

        Raises:
            ShopError: when a table of the same name has other columns, or only some of the tables exist.
        """
        with self._session.translated("read or create the tables"):
            present = self._session.present()
            if not present:
                self._session.create_tables()
                return True
            wanted = self._session.wanted()
        problems = [
            problem for table in TABLES for problem in _differences(table, present.get(table), wanted[table])
        ]
        if problems:
            raise ShopError(
                f"the database {self.name} has other tables of the shop's names: {'; '.join(problems)}",
                hint="use an empty database, or one that tidings-shop has prepared",
                retry=Retry.NEVER,
            )
        return False

    def create(self, name: str) -> None:
        """Create a database on the server.

        Raises:
            ShopError: when it exists or cannot be created.
        """
        with self._session.translated(f"create the database {name}"):
            self._session.create_database(name)

    def catalogue(self, limit: int = 1_000) -> Catalogue:
        """Customers and products that traffic can begin with: the oldest `limit` of each."""
        with self._session.translated("read the customers and products"):
            run = self._session.execute
            customers = run("select id from customers order by id limit %s", (limit,)).rows
            products = run("select id, price from products order by id limit %s", (limit,)).rows
            ((last,),) = run("select coalesce(max(id), 0) from customers").rows
        return Catalogue(
            tuple(row[0] for row in customers),
            tuple(KnownProduct(*row) for row in products),
            first_email_number=last + 1,
        )

    # Transactions

    def know(self, ids: Mapping[Ref, int]) -> None:
        """Remember the ids behind the names a plan uses; those of an earlier plan are forgotten."""
        self._ids = dict(ids)

    def apply(self, transaction: Transaction) -> Applied:
        """Execute one transaction and commit it, or roll it back as planned.

        Raises:
            ShopError: when the database is away or refuses for another reason than a conflict.
        """
        rows: Counter[str] = Counter()
        created: dict[Ref, int] = {}
        try:
            with (
                self._session.translated("execute a transaction"),
                self._session.transaction(rollback=transaction.rollback),
            ):
                for step in transaction.steps:
                    self._execute(step, created, rows)
        except _UnknownRowError:
            return Applied(Outcome.SKIPPED)
        except ConflictError:
            return Applied(Outcome.CONFLICTED)
        if transaction.rollback:
            return Applied(Outcome.ROLLED_BACK)
        self._ids.update(created)
        return Applied(Outcome.COMMITTED, rows)

    def _execute(self, step: Step, created: dict[Ref, int], rows: Counter[str]) -> None:
        # Names of tables and columns are the plan's own.
        given: list[Cell] = []
        match step:
            case Insert(table, values, creates):
                terms = ", ".join(self._term(value, created, given) for value in values.values())
                statement = f"insert into {table} ({', '.join(values)}) values ({terms})"  # noqa: S608
                if creates is None:
                    self._session.execute(statement, given)
                else:
                    created[creates] = self._session.insert(statement, given)
                rows[f"{table}.insert"] += 1
            case Update(table, key, values):
                pairs = ", ".join(self._pairs(values, created, given))
                where = " and ".join(self._pairs(key, created, given))
                statement = f"update {table} set {pairs} where {where}"  # noqa: S608
                rows[f"{table}.update"] += self._session.execute(statement, given).changed
            case Delete(table, key):
                where = " and ".join(self._pairs(key, created, given))
                statement = f"delete from {table} where {where}"  # noqa: S608
                rows[f"{table}.delete"] += self._session.execute(statement, given).changed
            case Abandoned(steps):
                with self._session.transaction(rollback=True):
                    for inner in steps:
                        self._execute(inner, created, Counter())

    def _pairs(self, values: Mapping[str, Value], created: Mapping[Ref, int], given: list[Cell]) -> list[str]:
        return [f"{name} = {self._term(value, created, given)}" for name, value in values.items()]

    def _term(self, value: Value, created: Mapping[Ref, int], given: list[Cell]) -> str:
        """A value as a statement has it; what is to be handed over with it goes to `given`."""
        if isinstance(value, Now):
            return self._session.now
        if isinstance(value, Ref):
            known = created.get(value, self._ids.get(value))
            if known is None:
                raise _UnknownRowError
            value = known
        given.append(value)
        return "%s"

    # What the demo looks at

    def count(self, table: str) -> int:
        """Rows of one of the shop's tables."""
        with self._session.translated(f"count {table}"):
            ((count,),) = self._session.execute(f"select count(*) from {table}").rows  # noqa: S608
        return int(count)

    def rows(self, table: str) -> list[dict[str, object]]:
        """All rows of one of the shop's tables."""
        with self._session.translated(f"read {table}"):
            return self._session.read(table)

    def log_reader(self, name: str) -> LogReader | None:
        """Who reads the database's log; None: nobody.

        Args:
            name: the replication slot, on PostgreSQL.
        """
        with self._session.translated("look at who reads its log"):
            return self._session.log_reader(name)


class _UnknownRowError(Exception):
    """A name has no id, because what was to create it was refused."""


def create_database(maintenance_url: str, name: str) -> str:
    """Create a database on the server, and give back its URL.

    Raises:
        ShopError: when it exists or cannot be created.
    """
    with ShopDatabase(maintenance_url) as server:
        server.create(name)
    base, _, query = maintenance_url.partition("?")
    scheme, _, rest = base.partition("://")
    return f"{scheme}://{rest.rpartition('/')[0] if '/' in rest else rest}/{name}" + (
        f"?{query}" if query else ""
    )


def _differences(
    table: str, present: Mapping[str, Column] | None, wanted: Mapping[str, Column]
) -> Iterator[str]:
    """What keeps a table from being the shop's; more columns are welcome when they can be left out."""
    if present is None:
        yield f"{table} is missing"
        return
    for name, column in wanted.items():
        if name not in present:
            yield f"{table}.{name} is missing"
        elif present[name] != column:
            yield f"{table}.{name} has another type"
    for name, column in present.items():
        if name not in wanted and column.not_null and not column.filled:
            yield f"{table}.{name} is not the shop's and needs a value"
