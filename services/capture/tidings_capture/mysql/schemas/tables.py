"""The versions of tables that the log speaks of: what reads their rows, and what makes records of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from tidings_capture.mysql.binlog import table_map as kinds
from tidings_capture.mysql.binlog.events import HEADER_BYTES, Event
from tidings_capture.mysql.binlog.gtid import GtidPosition
from tidings_capture.mysql.binlog.logged import decoder, fits, is_ambiguous
from tidings_capture.mysql.binlog.position import LogPosition, TransactionId
from tidings_capture.mysql.binlog.row_code import TableRows
from tidings_capture.mysql.binlog.table_map import BINARY, LoggedColumn, TableMap, read_table_map, table_name
from tidings_capture.mysql.binlog.versioned import Versioned, versioned
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.encoding.change_encoder import ChangeEncoder
from tidings_capture.mysql.encoding.records import Place, TablePlan
from tidings_capture.mysql.errors import MariaDbError, UnsupportedError
from tidings_capture.mysql.history.named import named
from tidings_capture.mysql.history.structures import Structures
from tidings_capture.mysql.history.topic import SchemaHistory
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.schemas.catalog import Charsets, Column, Table, table
from tidings_capture.mysql.schemas.schema_topic import SchemaTopic
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_connect.converters.encoding import Converter
from tidings_connect.transforms.record import SourceRecord
from tidings_service import get_logger

_log = get_logger(__name__)
T = TypeVar("T")
_ID_BYTES: Final = 6
_NOWHERE: Final = Offset(GtidPosition())
_MOST: Final = 5_000
"""Versions that are remembered."""


class Version:
    """One version of a captured table."""

    __slots__ = ("encoder", "past", "plan", "rows")

    def __init__(
        self, rows: TableRows, plan: TablePlan, encoder: ChangeEncoder | None, past: Versioned | None
    ) -> None:
        self.rows = rows
        self.plan = plan
        self.past = past
        """Where it is system-versioned."""
        self.encoder = encoder
        """The direct way to records, where there is one."""


class Tables:
    """Finds the version of a table that a TABLE_MAP speaks of.

    Args:
        converters: for keys and values, where rows may be encoded without records between.
        history: keeps the columns of tables where the log does not name them.
    """

    def __init__(
        self,
        config: MariaDbConfig,
        converters: tuple[Converter, Converter] | None = None,
        history: SchemaHistory | None = None,
    ) -> None:
        self._config = config
        self._converters = converters
        self._session: Session | None = None
        self._charsets: Charsets | None = None
        self.structures = Structures(config, history, lambda: self._asked()[0])
        self._known: dict[bytes, Version | None] = {}
        self._former: dict[Table, TablePlan] = {}

    def version(self, event: Event, place: Offset = _NOWHERE) -> Version | None:
        """The version; None: the table is not captured.

        Args:
            place: before the event's transaction.

        Raises:
            BinlogError: the event is malformed.
            UnsupportedError: the table holds what is not read.
            MariaDbError: the server cannot be asked.
        """
        said = event.data[HEADER_BYTES + _ID_BYTES :]
        if said not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[said] = self._find(event, place)
        return self._known[said]

    def altered(self) -> None:
        """A statement has changed some table: the catalog is asked anew."""
        self._known.clear()

    def told(
        self, topic: SchemaTopic, statement: str, database: str, place: Place, ended: int
    ) -> list[SourceRecord]:
        """The records of a definition; see `SchemaTopic.streamed`.

        Raises:
            MariaDbError: the server cannot be asked.
        """
        return self._asking(lambda: list(topic.streamed(self._asked()[0], statement, database, place, ended)))

    def plan(self, database: str, name: str) -> TablePlan | None:
        """What makes records of a table, as it is now or, where it is gone, as it was last; None: nobody knows it.

        Raises:
            UnsupportedError: the table holds what is not read.
            MariaDbError: the server cannot be asked.
        """
        now = self._asking(lambda: table(self._asked()[0], database, name))
        if now is None:
            former = [known for known in self._former if (known.database, known.name) == (database, name)]
            return self._former[former[-1]] if former else None
        return self._planned(now)

    def _planned(self, now: Table) -> TablePlan:
        plan = self._former.get(now)
        if plan is None:
            if len(self._former) >= _MOST:
                self._former.clear()
            plan = self._former[now] = TablePlan(now, self._config)
        return plan

    def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def define(
        self, statement: str, database: str, gtid: TransactionId, place: Offset, behind: LogPosition
    ) -> Mapping[str, Any]:
        """See `Structures.define`."""
        return self._asking(lambda: self.structures.define(statement, database, gtid, place, behind))

    def _find(self, event: Event, place: Offset) -> Version | None:
        if not self._config.captures(*table_name(event)):
            return None
        logged = read_table_map(event, by_mysql=self._config.flavour.writes_like_mysql)
        mapped, now, charsets = self._asking(lambda: self._ask(logged, place))
        past = versioned(mapped, now)
        visible = mapped if past is None else past.visible(mapped)
        if now is None or not fits(visible.columns, now, charsets):
            _log.info("rows of a former version of a table: its defaults are not known", table=mapped.name)
            now = _from_log(visible, charsets, now)
        elif logged.has_names:
            _check_ambiguous(visible, now, event.timestamp)
        decoders = [
            decoder(one, column.type, charsets)
            for one, column in zip(visible.columns, now.columns, strict=True)
        ]
        decoders += [None] * (len(mapped.columns) - len(visible.columns))
        plan = self._planned(now)
        encoder = None
        if self._converters is not None and not self._config.skipped & {"c", "u", "d"} and past is None:
            encoder = ChangeEncoder(mapped, decoders, plan, self._converters)
        virtual = () if self._config.flavour.writes_like_mysql else _virtual(now)
        return Version(TableRows(mapped, decoders, virtual), plan, encoder, past)

    def _asking(self, ask: Callable[[], T]) -> T:
        """What is asked of the server; once more by a new connection, as this one may have been idle for too long."""
        try:
            return ask()
        except MariaDbError:
            self.close()
            return ask()

    def _ask(self, mapped: TableMap, place: Offset) -> tuple[TableMap, Table | None, Charsets]:
        session, charsets = self._asked()
        if mapped.has_names:
            return mapped, table(session, mapped.database, mapped.table), charsets
        known = self.structures.at((mapped.database, mapped.table), place)
        return named(mapped, known, charsets), known, charsets

    def _asked(self) -> tuple[Session, Charsets]:
        if self._session is None:
            self._session = Session(self._config.endpoint)
            self._charsets = Charsets(self._session)
        assert self._charsets is not None
        return self._session, self._charsets


def _check_ambiguous(mapped: TableMap, now: Table, written: int) -> None:
    """Fixed bytes of the log may be a UUID: only the catalog says so, of now."""
    names = [column.name for column in mapped.columns if is_ambiguous(column)]
    if names and (now.created is None or written < now.created):
        raise _ambiguous(mapped, names)


def _ambiguous(mapped: TableMap, names: list[str]) -> UnsupportedError:
    return UnsupportedError(
        f"{mapped.name} was altered after rows of it were written that are read now, and the log does not say whether"
        f" column {names[0]!r} was BINARY, UUID or an address then",
        hint="take a new snapshot, or leave the table out with table.exclude.list",
    )


_FROM_LOG: Final = {
    kinds.TINY: "tinyint",
    kinds.SHORT: "smallint",
    kinds.INT24: "mediumint",
    kinds.LONG: "int",
    kinds.LONGLONG: "bigint",
    kinds.FLOAT: "float",
    kinds.DOUBLE: "double",
    kinds.NEWDECIMAL: "decimal",
    kinds.BIT: "bit",
    kinds.YEAR: "year",
    kinds.DATE: "date",
    kinds.TIME2: "time",
    kinds.DATETIME2: "datetime",
    kinds.TIMESTAMP2: "timestamp",
    kinds.ENUM: "enum",
    kinds.SET: "set",
    kinds.JSON: "json",
    kinds.VECTOR: "vector",
}


def _virtual(table: Table) -> frozenset[int]:
    """Places of VIRTUAL columns."""
    return frozenset(index for index, column in enumerate(table.columns) if column.virtual)


def _from_log(mapped: TableMap, charsets: Charsets, now: Table | None) -> Table:
    """A table as far as the log knows it: without defaults, and without unique indexes that are not the primary key. The log
    does not know either which columns are VIRTUAL: those that are so `now` are.
    """
    names = [column.name for column in mapped.columns if is_ambiguous(column)]
    if names:
        raise _ambiguous(mapped, names)
    virtual = {column.name for column in (now.columns if now else ()) if column.virtual}
    columns = tuple(
        replace(_column(logged, charsets), virtual=logged.name in virtual) for logged in mapped.columns
    )
    return Table(mapped.database, mapped.table, columns, mapped.key, (), None)


def _column(logged: LoggedColumn, charsets: Charsets) -> Column:
    kind = _FROM_LOG.get(logged.type, "")
    is_text = logged.collation not in {None, BINARY}
    if logged.type in {kinds.VARCHAR, kinds.STRING}:
        prefix = "var" if logged.type == kinds.VARCHAR else ""
        kind = prefix + ("char" if is_text else "binary")
    elif logged.type == kinds.BLOB:
        kind = "text" if is_text else "blob"
    elif logged.type == kinds.GEOMETRY:
        kind = "point" if logged.geometry == 1 else "geometry"
    made = Column(
        logged.name,
        kind,
        f"{kind} unsigned" if logged.unsigned else kind,
        logged.nullable,
        None,
        charsets.name(logged.collation) if is_text and logged.collation is not None else None,
        None,
        logged.meta if kind == "binary" else None,
        None,
        None,
        logged.meta,
        generated=False,
        virtual=False,
    )
    if kind == "decimal":
        return replace(made, precision=logged.meta >> 8, scale=logged.meta & 255)
    if kind == "bit":
        return replace(made, precision=logged.meta)
    if kind in {"enum", "set"}:
        read = charsets.decoder(logged.collation or 0) if is_text else bytes.decode
        labels = ",".join("'" + read(label).replace("'", "''") + "'" for label in logged.labels)
        return replace(made, declared=f"{kind}({labels})")
    return made
