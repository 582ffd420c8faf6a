"""What the lab says to a MariaDB, to a MySQL with GTIDs, and to one without."""

import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from tidings_envelope.commit_number import commit_position
from tidings_envelope.gtid import gtid_of
from tidings_stack.mariadb import MariaDbServer, MySqlLikeServer
from tidings_stack.mysql import MySqlServer

Run = Callable[..., list[tuple[Any, ...]]]
"""Runs statements on a server; the last one's rows."""


_LOCAL_DOMAINS: Final = (91, 92)
"""Of each of both servers one: in a common one each would have numbers of its own, which replicas take for a conflict."""
_LOCAL_UUID: Final = "99999999-0000-4000-8000-000000000000"


def _is_local(gtid: str) -> bool:
    """Of MariaDB's."""
    return int(gtid.partition("-")[0]) in _LOCAL_DOMAINS


class Flavour(ABC):
    """One kind of server."""

    server: ClassVar[type[MySqlLikeServer]]
    connector_class: ClassVar[str]
    settings: ClassVar[Mapping[str, str]] = {}
    metadata: ClassVar[tuple[str, ...]]
    """Values of `binlog_row_metadata`, of which a schedule has one."""
    leaves_out_virtual: ClassVar[bool] = False
    """Whether `session` has images of rows without VIRTUAL columns that have changed."""
    alter_lock: ClassVar[str] = ""
    """Behind the changes of an ALTER TABLE."""
    has_gtids: ClassVar[bool] = True
    """Without, there is no failover, and no incremental snapshot is read-only."""
    end: ClassVar[str]
    """Selects where the log ends, by GTIDs."""

    @abstractmethod
    def replicate(self, password: str, port: int) -> tuple[str, ...]:
        """Make a server follow another one."""

    @abstractmethod
    def waited(self, end: str) -> str:
        """Selects 0 once a replica has come to a place, in 600 seconds."""

    @abstractmethod
    def promote(self) -> tuple[str, ...]:
        """Make a replica a server of its own."""

    @abstractmethod
    def purge(self, run: Run, server: MySqlLikeServer, offset: Mapping[str, Any]) -> None:
        """Remove the files that a stored offset does not need; raises pymysql.Error where the server knows better."""

    @abstractmethod
    def session(self, chance: random.Random) -> str | None:
        """What a writer says at the beginning of a connection, or of a transaction."""

    @abstractmethod
    def position(self, run: Run, server: MySqlLikeServer) -> int:
        """Where everything that is committed lies, as a number that records and the lake have."""

    def follows_again(self, here: str, there: str) -> tuple[str, ...]:
        """What a server that was killed is told before it follows its former replica.

        Args:
            here: where its log ends, by GTIDs.
            there: where that of the other one ends.
        """
        return ()

    @abstractmethod
    def local(self, statement: str) -> tuple[str, ...]:
        """A statement as a transaction of a source that does not count, with what leads there and back."""

    local_sources: ClassVar[str]
    """`gtid.source.excludes`: those."""
    compress: ClassVar[tuple[str, ...]]
    """Compresses the log from now on, or no longer."""
    readers: ClassVar[str]
    """Selects the connections that read the log."""


class MariaDb(Flavour):
    """With domains of GTIDs."""

    server = MariaDbServer
    connector_class = "io.debezium.connector.mariadb.MariaDbConnector"
    metadata = ("FULL", "MINIMAL", "NO_LOG")
    leaves_out_virtual = True
    # 11.4.5 loses rows of distributed transactions in a table that is altered without one.
    alter_lock = ", LOCK=SHARED"
    end = "SELECT @@gtid_binlog_pos"
    readers = "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    local_sources = rf"({'|'.join(map(str, _LOCAL_DOMAINS))})-.*"
    compress = (
        "SET GLOBAL log_bin_compress_min_len = 20",
        "SET GLOBAL log_bin_compress = NOT @@log_bin_compress",
    )

    def replicate(self, password: str, port: int) -> tuple[str, ...]:
        source = (
            f"master_host='127.0.0.1', master_port={port}, master_user='admin', master_use_gtid=slave_pos,"
            f" master_password='{password}', master_connect_retry=1, master_ssl=0, master_ssl_verify_server_cert=0,"
            f" ignore_domain_ids={_LOCAL_DOMAINS}"
        )
        return f"CHANGE MASTER TO {source}", "START SLAVE"

    def waited(self, end: str) -> str:
        counted = ",".join(gtid for gtid in end.split(",") if not _is_local(gtid))
        return f"SELECT MASTER_GTID_WAIT('{counted}', 600)"

    def follows_again(self, here: str, there: str) -> tuple[str, ...]:
        """The other's local transactions are taken for read: they may be purged."""
        of_it = {gtid for gtid in there.split(",") if _is_local(gtid)} - set(here.split(","))
        return (f"SET GLOBAL gtid_slave_pos = '{','.join([here, *of_it])}'",)

    def local(self, statement: str) -> tuple[str, ...]:
        """In a domain of its own, which a replica leaves out."""
        return (
            f"SET SESSION gtid_domain_id = @@server_id + {_LOCAL_DOMAINS[0] - 1}",
            statement,
            "SET SESSION gtid_domain_id = 0",
        )

    def promote(self) -> tuple[str, ...]:
        return "STOP SLAVE", "RESET SLAVE ALL"

    def position(self, run: Run, server: MySqlLikeServer) -> int:
        ((text,),) = run(server, self.end)
        counted = [gtid_of(gtid) for gtid in text.split(",") if gtid and not _is_local(gtid)]
        return max((gtid.commit_position for gtid in counted), default=0)

    def purge(self, run: Run, server: MySqlLikeServer, offset: Mapping[str, Any]) -> None:
        file, position = offset["file"], offset["pos"]
        ((gtids,),) = run(server, f"SELECT BINLOG_GTID_POS('{file}', {position})")
        if gtids == offset["gtids"]:
            run(server, f"PURGE BINARY LOGS TO '{file}'")

    def session(self, chance: random.Random) -> str | None:
        if chance.random() < 0.8:
            return None
        return f"SET SESSION binlog_row_image = '{chance.choice(('FULL', 'FULL_NODUP'))}'"


class MySql(Flavour):
    """With sets of GTIDs."""

    server = MySqlServer
    connector_class = "io.debezium.connector.mysql.MySqlConnector"
    metadata = ("FULL", "MINIMAL")
    end = "SELECT @@global.gtid_executed"
    # Not the process list, which cannot show a statement with an emoji in it (error 3854).
    readers = (
        "SELECT processlist_id FROM performance_schema.threads WHERE processlist_command LIKE 'Binlog Dump%'"
    )
    local_sources = _LOCAL_UUID
    compress = (  # of those who connect from now on; see `session`
        "SET GLOBAL binlog_transaction_compression = NOT @@global.binlog_transaction_compression",
    )

    def __init__(self) -> None:
        self._local_numbers = itertools.count(1)

    def replicate(self, password: str, port: int) -> tuple[str, ...]:
        source = (
            f"SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='admin', SOURCE_PASSWORD='{password}',"
            " SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1, GET_SOURCE_PUBLIC_KEY=1"
        )
        return f"CHANGE REPLICATION SOURCE TO {source}", "START REPLICA"

    def waited(self, end: str) -> str:
        return f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{end}', 600)"

    def promote(self) -> tuple[str, ...]:
        return "STOP REPLICA", "RESET REPLICA ALL"

    def position(self, run: Run, server: MySqlLikeServer) -> int:
        """By the clock, by which commits are numbered."""
        ((micros,),) = run(server, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
        return commit_position(micros)

    def local(self, statement: str) -> tuple[str, ...]:
        """By a server that there is not; the replica has it as well, as nothing makes one leave it out."""
        return (
            f"SET SESSION gtid_next = '{_LOCAL_UUID}:{next(self._local_numbers)}'",
            statement,
            "SET SESSION gtid_next = 'AUTOMATIC'",
        )

    def purge(self, run: Run, server: MySqlLikeServer, offset: Mapping[str, Any]) -> None:
        """A file begins with the set of those that lie before it."""
        for file, *_ in reversed(run(server, "SHOW BINARY LOGS")):
            before = "".join(
                row[5]
                for row in run(server, f"SHOW BINLOG EVENTS IN '{file}' LIMIT 2")
                if row[2] == "Previous_gtids"
            )
            ((is_read,),) = run(server, f"SELECT GTID_SUBSET('{before}', '{offset['gtids']}')")
            if is_read:
                run(server, f"PURGE BINARY LOGS TO '{file}'")
                return

    def session(self, chance: random.Random) -> str | None:
        """No other way compresses what is written by who is connected, or logs documents in part."""
        if chance.random() < 0.7:
            return None
        return "SET SESSION " + chance.choice(
            (
                "binlog_transaction_compression = ON",
                "binlog_transaction_compression = OFF",
                "binlog_row_value_options = PARTIAL_JSON",
                "binlog_row_value_options = PARTIAL_JSON",
                "binlog_row_value_options = ''",
            )
        )


class MySqlByFiles(MySql):
    """Without GTIDs: its positions are bytes of files."""

    settings: ClassVar[Mapping[str, str]] = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
    has_gtids = False

    def purge(self, run: Run, server: MySqlLikeServer, offset: Mapping[str, Any]) -> None:
        run(server, f"PURGE BINARY LOGS TO '{offset['file']}'")


FLAVOURS: Final[Mapping[str, type[Flavour]]] = {
    "mariadb": MariaDb,
    "mysql": MySql,
    "mysql-by-files": MySqlByFiles,
}
