"""MySQL 9.7 as a local process, with a binary log of rows that names its columns.

Its program comes from Debian's packages (`provision.debian`) and runs with their C library, so it needs neither root nor a new
Debian. Where they cannot be had, `unpacked_mysql` says why.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tidings_jvm.cache import locked
from tidings_stack.ports import LOOPBACK
from tidings_stack.provision.debian import loader_of, unpacked_mysql
from tidings_stack.server import Place, Server

DEFAULT_SETTINGS: Mapping[str, str] = {
    "server_id": "1",
    "log_bin": "binlog",
    "binlog_row_metadata": "FULL",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "default_time_zone": "+00:00",
    "mysqlx": "OFF",
    "skip_name_resolve": "ON",
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


class MySqlServer(Server):
    """A MySQL server with one superuser, `admin`, and a random password. It offers TLS with a certificate of its own.

    Accounts use `caching_sha2_password`, the only method that this version makes: a client without TLS has to encrypt the
    password by the server's public key the first time.
    """

    name = "mysql"
    title = "MySQL 9.7"
    start_seconds = 60.0

    def __init__(
        self, place: Place, *, settings: Mapping[str, str] | None = None, name: str | None = None
    ) -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self.settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self.password = secrets.token_urlsafe(12)
        self._unpacked = Path()

    @property
    def url(self) -> str:
        """The superuser's URL."""
        return f"mysql://admin:{self.password}@{LOOPBACK}:{self.port}"

    @property
    def data(self) -> Path:
        """The data directory, where the binary log is."""
        return self.directory / "data"

    def _prepare(self) -> None:
        self._unpacked = unpacked_mysql(self.place.progress)
        password = self.directory / "password"
        if self.data.is_dir():  # kept from an earlier run
            self.password = password.read_text(encoding="ascii").strip()
        else:
            shutil.copytree(self._instance(), self.data)
            password.touch(mode=0o600)
            password.write_text(self.password, encoding="ascii")
        start = self.directory / "start.sql"
        start.touch(mode=0o600)
        start.write_text(
            "SET SESSION sql_log_bin = 0;\n"
            f"CREATE USER IF NOT EXISTS admin@'%' IDENTIFIED BY '{self.password}';\n"
            "GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION;\n",
            encoding="ascii",
        )

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
        """The server with its own C library; `options` after those that every run needs."""
        root = self._unpacked / "usr"
        own = {"basedir": str(root), "lc_messages_dir": str(root / "share" / "mysql"), **_DISK_SETTINGS}
        as_root = ["--user=root"] if os.getuid() == 0 else []
        given = [f"--{name}={value}" for name, value in {**own, **options}.items()]
        return [*loader_of(self._unpacked), str(root / "sbin" / "mysqld"), "--no-defaults", *as_root, *given]

    def _command(self) -> Sequence[str]:
        own = {
            "datadir": str(self.data),
            "socket": str(self.directory / "socket"),
            "pid_file": str(self.directory / "pid"),
            "port": str(self.port),
            "bind_address": LOOPBACK,
            "init_file": str(self.directory / "start.sql"),
        }
        return self._program({**own, **self.settings})

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=2) as connection:
                return b"caching_sha2_password" in connection.recv(256)  # its greeting
        except OSError:
            return False
