"""MySQL 9.7 as a local process, with a binary log of rows that names its columns.

Its program comes from Debian's packages (`provision.debian`) and runs with their C library, so it needs neither root nor a new
Debian. Where they cannot be had, `unpacked_mysql` says why.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidings_jvm.cache import locked
from tidings_stack.mariadb import MySqlLikeServer, as_arguments
from tidings_stack.provision.debian import loader_of, unpacked_mysql

DEFAULT_SETTINGS: Mapping[str, str] = {
    "server_id": "1",
    "log_bin": "binlog",
    "binlog_row_metadata": "FULL",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "default_time_zone": "+00:00",
    "mysqlx": "OFF",
    "skip_name_resolve": "ON",
    # A year otherwise, in which a test that waits for its own lock stands still.
    "lock_wait_timeout": "120",
    "secure_file_priv": "",
    # 155 MB resident instead of 545 MB.
    "performance_schema": "OFF",
    "innodb_buffer_pool_size": "16M",
    "innodb_log_buffer_size": "1M",
    "table_open_cache": "200",
    "table_definition_cache": "400",
    "max_connections": "60",
    "temptable_max_ram": "2M",
    "key_buffer_size": "64K",
    "innodb_read_io_threads": "1",
    "innodb_write_io_threads": "1",
    # The data is thrown away at the end; a SIGKILL loses nothing without, only a power cut would.
    "sync_binlog": "0",
    "innodb_flush_log_at_trx_commit": "2",
}
# Of the files on disk: an instance that was made with them has to run with them.
_DISK_SETTINGS: Final[Mapping[str, str]] = {
    "innodb_redo_log_capacity": "16M",
    "innodb_doublewrite": "OFF",
    "innodb_flush_method": "nosync",
}


HOME: Final = "TIDINGS_STACK_MYSQL_HOME"
"""A directory that another MySQL was unpacked in (`provision.debian_pin`), to run in place of the one that is pinned."""


class MySqlServer(MySqlLikeServer):
    """A MySQL server. It offers TLS with a certificate of its own.

    Accounts use `caching_sha2_password`, the only method that this version makes: a client without TLS has to encrypt the
    password by the server's public key the first time.
    """

    name = "mysql"
    title = "MySQL 9.7"
    default_settings = DEFAULT_SETTINGS
    create_user = "CREATE USER IF NOT EXISTS"
    greeting = b"caching_sha2_password"
    _unpacked = Path()

    def _fetch(self) -> None:
        home = os.environ.get(HOME)
        self._unpacked = Path(home) if home else unpacked_mysql(self.place.progress)

    def _make_data(self) -> None:
        shutil.copytree(self._instance(), self.data)

    def _instance(self) -> Path:
        """An empty instance to copy: a server writes one in three seconds, a copy takes a tenth of one."""
        made = self._unpacked.with_name(f"{self._unpacked.name}-instance")
        with locked(made.with_name(f"{made.name}.lock")):
            if not made.is_dir():
                scratch = Path(tempfile.mkdtemp(prefix="instance-", dir=made.parent))
                try:
                    data = {"datadir": str(scratch / "data"), "innodb_buffer_pool_size": "16M"}
                    command = [*self._program(data), "--initialize-insecure", "--skip-log-bin"]
                    self._run_tool(command, f"{self.title} cannot write an empty instance")
                    (scratch / "data" / "auto.cnf").unlink()  # a server's own UUID
                    (scratch / "data").rename(made)
                finally:
                    shutil.rmtree(scratch, ignore_errors=True)
        return made

    def _program(self, options: Mapping[str, str]) -> list[str]:
        """With its own C library."""
        root = self._unpacked / "usr"
        own = {"basedir": str(root), "lc_messages_dir": str(root / "share" / "mysql"), **_DISK_SETTINGS}
        return [
            *loader_of(self._unpacked),
            str(root / "sbin" / "mysqld"),
            *as_arguments({**own, **options}),
        ]
