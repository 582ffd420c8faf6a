"""What is written of a definition (DDL) in the log: the schema history, the topic of schema changes, and emptied tables."""

from typing import NamedTuple

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.position import LogPosition, TransactionId
from tidings_capture.mysql.encoding.records import Numbers, Place
from tidings_capture.mysql.history.topic import SchemaHistory
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.schemas.ddl import truncated
from tidings_capture.mysql.schemas.schema_topic import SchemaTopic
from tidings_capture.mysql.schemas.tables import Tables
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_capture.mysql.streaming.transactions import TransactionTopic
from tidings_connect.task.output import Output
from tidings_service import get_logger

_log = get_logger(__name__)


class Definition(NamedTuple):
    """One statement of the log, and where it stands."""

    query: log.Query
    place: Place
    before: Offset
    """The position before its transaction."""
    gtid: TransactionId
    """Of its transaction."""
    behind: LogPosition
    """The place after it."""
    events: int
    """How many of its transaction's were read before it."""
    written: int
    """When, in seconds since the Unix epoch."""


class DefinitionWriter:
    """Writes what a connector tells of definitions."""

    def __init__(
        self, config: MariaDbConfig, output: Output, tables: Tables, history: SchemaHistory | None
    ) -> None:
        self._config = config
        self._output = output
        self._tables = tables
        self._history = history
        self._topic = TransactionTopic(config)
        self._schemas = SchemaTopic(config)
        self._truncates = "t" not in config.skipped

    def write(self, one: Definition, numbers: Numbers | None, *, passed: bool) -> Numbers | None:
        """Write it; the numbers of its transaction's events, which begin with an emptied table.

        Args:
            numbers: of its transaction; None: it has no event so far.
            passed: it was told before.
        """
        statement = one.query.statement.decode("utf-8", "replace")
        kept = self._tables.define(statement, one.query.database, one.gtid, one.before, one.behind)
        if self._history is not None and not passed:
            told = self._schemas.told(statement, one.query.database)
            self._history.define([(d.database, d.statement) for d in told], one.before, one.events, kept)
        if self._truncates:
            numbers = self._truncate(one, truncated(statement, one.query.database), numbers, passed=passed)
        if not passed and self._config.schema_changes:
            ended = one.written + one.query.seconds
            for record in self._tables.told(self._schemas, statement, one.query.database, one.place, ended):
                self._output.write(record, trusted=True)
        return numbers

    def _truncate(
        self, one: Definition, named: tuple[str, str] | None, numbers: Numbers | None, *, passed: bool
    ) -> Numbers | None:
        """Tell that a captured table has been emptied, as a transaction of one event."""
        if named is None or not self._config.captures(*named):
            return numbers
        plan = self._tables.plan(*named)
        if plan is None:
            _log.warning(
                "a table that is gone was truncated; nobody knows its columns", table=".".join(named)
            )
            return numbers
        if self._config.transactions and numbers is None:
            numbers = Numbers(one.gtid.name, 0, {}, one.place.commit)
            if not passed:
                milliseconds = one.place.nanos // 1_000_000 or one.written * 1000
                self._output.write(self._topic.begin(numbers, milliseconds))
        records = plan.truncate(one.place, numbers)
        for record in () if passed else records:
            self._output.write(record, trusted=True)
        return numbers
