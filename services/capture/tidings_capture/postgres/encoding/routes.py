"""From a relation to its plan and topic: what the stream looks up for every row.

A Relation message makes a route, once per version of a relation; a relation that no filter captures gets none. Topics
are created before the first record, because a broker need not create them itself.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tidings_capture.cdc.route import Route
from tidings_capture.cdc.tables import Table
from tidings_capture.postgres.encoding.plan import Plan, compile_plan
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.server.catalog import Catalog
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.wire.messages import Relation
from tidings_connect.converters.encoding import Converter
from tidings_service import Retry, get_logger

_log = get_logger(__name__)
_LOOKED_UP_ALONE: Final = 8
"""After so many relations of a stream that is behind, the tables that it has not met yet are looked up at once."""


class Routes:
    """The routes of one task, by the relation's oid; None: known, but not captured.

    Args:
        catalog: gives the catalog; True: through a new session.
        ensure_topic: creates a topic that does not exist.
    """

    def __init__(
        self,
        config: ConnectorConfig,
        catalog: Callable[[bool], Catalog],
        converters: tuple[Converter, Converter],
        ensure_topic: Callable[[str], None],
    ) -> None:
        self._config = config
        self._catalog = catalog
        self._key, self._value = converters
        self._ensure_topic = ensure_topic
        self.by_oid: dict[int, Route | None] = {}
        self._relations: dict[int, Relation] = {}
        self._former_records: dict[str, int] = {}
        self._expected: Sequence[tuple[str, str]] = ()
        self._looked_up = 0
        """Relations that were looked up one by one while the stream was behind."""
        self.on_route: Callable[[Route], None] | None = None
        """Called with every route that is made."""

    def add_relation(self, relation: Relation, tx_id: int | None = None) -> None:
        """Take note of a Relation message.

        Args:
            tx_id: the transaction that it came in, whose changes to the catalog must be waited for.
        """
        schema = relation.schema or "pg_catalog"
        if not self._config.tables.captures(schema, relation.name):
            self.by_oid[relation.oid] = None
            return
        self._relations[relation.oid] = relation
        self._add(self._table(relation, tx_id))

    def expect(self, tables: Sequence[tuple[str, str]]) -> None:
        """Say which tables are captured, by schema and name: where many are met at once, they are looked up at once."""
        self._expected = tables

    def renew(self, oid: int) -> Plan | None:
        """A plan of a relation as the catalog shows it now; None when nothing has changed."""
        route, relation = self.by_oid[oid], self._relations.get(oid)
        assert route is not None
        table = route.table if relation is None else self._table(relation, None)
        if table == route.table:
            return None
        route.table = table
        route.plan = plan = self._plan(table, route.topic)
        if self.on_route is not None:
            self.on_route(route)  # whoever watched the former plan watches this one
        return plan

    def add_table(self, table: Table) -> Route:
        """A table that a snapshot reads."""
        return self._add(table)

    def of_table(self, table: Table) -> Route | None:
        """The stream's route of a table; None when the stream has not announced it."""
        return self.by_oid.get(table.oid)

    def detached(self, table: Table) -> Route:
        """A route that the stream does not use: its next rows may be of an older version of the table."""
        return self._made(table)

    def count(self, topic: str, records: int) -> None:
        """Records that were made without a route of the stream's."""
        self._former_records[topic] = self._former_records.get(topic, 0) + records

    def records(self) -> dict[str, int]:
        """Records made so far, by topic."""
        total = dict(self._former_records)
        for route in self.by_oid.values():
            if route is not None:
                total[route.topic] = total.get(route.topic, 0) + route.records
        return total

    def _table(self, relation: Relation, tx_id: int | None) -> Table:
        return self._fresh(lambda catalog: self._look_up(catalog, relation, tx_id))

    def _look_up(self, catalog: Catalog, relation: Relation, tx_id: int | None) -> Table:
        if tx_id is not None and catalog.has_ended(tx_id) and not catalog.is_ahead(relation.oid, tx_id):
            self._looked_up += 1
            if self._looked_up % _LOOKED_UP_ALONE == 0 and (others := self._not_met()):
                catalog.read_ahead(others, tx_id)
        return catalog.table_of_relation(relation, tx_id)

    def _not_met(self) -> list[tuple[str, str]]:
        met = {(relation.schema or "pg_catalog", relation.name) for relation in self._relations.values()}
        return [table for table in self._expected if table not in met]

    def _fresh(self, read: Callable[[Catalog], Table]) -> Table:
        try:
            return read(self._catalog(False))
        except PostgresError as error:
            if error.retry is not Retry.TIMED:
                raise
            # Relations are rare: a server or a firewall may have ended the session that waited for one.
            return read(self._catalog(True))

    def _add(self, table: Table) -> Route:
        former = self.by_oid.get(table.oid)
        if former is not None:
            if former.table == table:
                return former
            self._former_records[former.topic] = self._former_records.get(former.topic, 0) + former.records
        route = self._made(table)
        self.by_oid[table.oid] = route
        if self.on_route is not None:
            self.on_route(route)
        return route

    def _made(self, table: Table) -> Route:
        topic = self._config.topics.of_table(table.schema, table.name)
        self._ensure_topic(topic)
        return Route(table, self._plan(table, topic), topic)

    def _plan(self, table: Table, topic: str) -> Plan:
        key_field = self._config.topics.key_field(table.schema, table.name)
        plan = compile_plan(
            table, self._config.conversion, self._key, self._value, topic, key_field=key_field
        )
        plan.renew = self.renew
        if plan.omitted_columns:
            _log.warning(
                "columns are left out of the topic: Debezium does not read their types",
                table=table.qualified_name,
                columns=list(plan.omitted_columns),
                hint="include.unknown.datatypes=true sends most of them as the bytes of their text (of arrays, as arrays"
                " of these); column.exclude.list says that they are not wanted",
            )
        return plan
