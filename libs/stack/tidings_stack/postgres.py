"""PostgreSQL 14 to 18 as a local process, with contrib and logical WAL.

The binaries are a minimal build (initdb, pg_ctl, postgres); an installed PostgreSQL, or another one's extensions, can be
used in their place. PostgreSQL refuses to run as root: as root it runs as
`nobody`, which may not be able to enter the download cache; then the binaries are linked or copied beside the data.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tidings_jvm import fetch, unpack
from tidings_stack.errors import ServerStartError
from tidings_stack.members import PG_VERSIONS
from tidings_stack.ports import LOOPBACK
from tidings_stack.server import Place, Server

DEFAULT_SETTINGS: Mapping[str, str] = {
    "wal_level": "logical",
    "max_wal_senders": "30",
    "max_replication_slots": "30",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # The data is thrown away at the end; a SIGKILL loses nothing without fsync, only a power cut would.
    "fsync": "off",
}


class PostgresServer(Server):
    """A PostgreSQL cluster with one superuser, `postgres`, and a random password.

    `binaries` is an installation to use instead of a fetched one: the directory that has ``bin``. `extensions` are
    installations of the same major version (directories with ``lib/postgresql`` and ``share/postgresql/extension``)
    whose extensions this server gets beside its own.
    """

    name = "pg"
    title = "PostgreSQL"
    stop_signal = signal.SIGINT  # a fast shutdown
    death_signal = signal.SIGQUIT  # an immediate one, which also ends the backends
    start_seconds = 60.0

    def __init__(
        self,
        place: Place,
        *,
        version: str = "16",
        settings: Mapping[str, str] | None = None,
        name: str | None = None,
        binaries: Path | None = None,
        extensions: Sequence[Path] = (),
        primary: PostgresServer | None = None,
    ) -> None:
        """Args: primary: a running server (15 or newer) whose streaming replica this one is, until it is promoted."""
        if version not in PG_VERSIONS:
            raise ServerStartError(
                f"there is no PostgreSQL {version} here", hint=f"choose one of {', '.join(PG_VERSIONS)}"
            )
        super().__init__(place, name)
        self.version = version
        self.title = f"PostgreSQL {version}"
        self.port = place.ports.reserve()
        self.settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self.password = secrets.token_urlsafe(12)
        self._primary = primary
        self._data = self.directory / "data"
        self._given_binaries = binaries
        self._extensions = tuple(extensions)
        self._binaries = Path()

    @property
    def url(self) -> str:
        """The superuser's URL of the maintenance database `postgres`."""
        return self.database_url("postgres")

    def database_url(self, database: str) -> str:
        """Return the superuser's URL of a database."""
        return f"postgresql://postgres:{self.password}@{LOOPBACK}:{self.port}/{database}"

    def _prepare(self) -> None:
        if self._user() is not None and not everybody_may_enter(self.directory):
            raise ServerStartError(
                f"{self.directory} cannot be entered by nobody, the user PostgreSQL runs as when root starts it",
                hint="choose a directory whose parents every user may enter",
            )
        self._binaries = self._given_binaries or self._reachable_binaries(
            unpack(fetch(f"pg-{self.version}", progress=self.place.progress)[0])
        )
        user = self._user()
        if user is not None:
            os.chown(self.directory, *user)
        password_file = self.directory / "password"
        if (self._data / "PG_VERSION").is_file():  # kept from an earlier run
            self.password = password_file.read_text(encoding="ascii").strip()
            return
        if self._primary is not None:
            self._copy(self._primary, user)
            return
        password_file.touch(mode=0o600)
        password_file.write_text(self.password, encoding="ascii")
        if user is not None:
            os.chown(password_file, *user)
        command = [
            *(str(self._binaries / "bin" / "initdb"), "-D", str(self._data), "-U", "postgres", "-E", "UTF8"),
            *("--locale=C", "-A", "scram-sha-256", f"--pwfile={password_file}", "--no-sync"),
        ]
        self._run_tool(command, f"initdb of {self.title} failed")
        if not self.place.keep:
            password_file.unlink()

    def _copy(self, primary: PostgresServer, user: tuple[int, int] | None) -> None:
        """A base backup, by hand: the minimal build has no pg_basebackup."""
        self.password = primary.password
        slot = self.directory.name.replace("-", "_")
        with psycopg.connect(primary.url, autocommit=True) as connection:
            connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", (slot,))
            connection.execute("SELECT pg_backup_start('replica', true)")
            skipped = shutil.ignore_patterns("postmaster.*", "pg_replslot", "pg_stat_tmp", "pgsql_tmp*")
            shutil.copytree(primary.data, self._data, ignore=skipped)
            (self._data / "pg_replslot").mkdir()
            row = connection.execute("SELECT labelfile FROM pg_backup_stop(false)").fetchone()
        assert row is not None
        shutil.copytree(primary.data / "pg_wal", self._data / "pg_wal", dirs_exist_ok=True)
        (self._data / "backup_label").write_text(row[0], encoding="utf-8")
        (self._data / "standby.signal").touch()
        for path in (self._data, *self._data.rglob("*")):
            if user is not None:
                os.chown(path, *user)
        self._data.chmod(0o700)
        self.settings["primary_slot_name"] = slot
        # In the file, so that a test can change it while the server runs.
        with (self._data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            file.write(
                f"primary_conninfo = 'host={LOOPBACK} port={primary.port} user=postgres dbname=postgres "
                f"password={primary.password}'\n"
            )

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._data

    def _command(self) -> Sequence[str]:
        settings = {
            "port": str(self.port),
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "logging_collector": "off",
            **self.settings,
        }
        options = [item for name, value in settings.items() for item in ("-c", f"{name}={value}")]
        return [str(self._binaries / "bin" / "postgres"), "-D", str(self._data), *options]

    def _environment(self) -> dict[str, str]:
        # A PGHOST or PGDATA of the person who runs this means another server.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {**environment, "LC_ALL": "C", "TZ": "UTC"}

    def _user(self) -> tuple[int, int] | None:
        if os.getuid() != 0:
            return None
        nobody = pwd.getpwnam("nobody")
        return nobody.pw_uid, nobody.pw_gid

    def _is_ready(self) -> bool:
        return can_connect(self.url)

    def _reachable_binaries(self, unpacked: Path) -> Path:
        if not self._extensions and (self._user() is None or everybody_may_enter(unpacked)):
            return unpacked
        copy = self.directory / "binaries"
        if not copy.is_dir():
            shutil.copytree(unpacked, copy, symlinks=True, copy_function=_link_or_copy)
            for installation in self._extensions:
                _add_extensions(installation, copy)
        return copy


def everybody_may_enter(path: Path) -> bool:
    """Whether a user without rights of its own may enter `path`."""
    return all(one.stat().st_mode & stat.S_IXOTH for one in (path, *path.parents))


def _add_extensions(installation: Path, target: Path) -> None:
    """Put what `installation` has and `target` lacks of libraries and extensions' scripts beside the target's own."""
    for part, pattern in (("lib/postgresql", "*.so"), ("share/postgresql/extension", "*")):
        for file in (installation / part).glob(pattern):
            if not (target / part / file.name).exists():
                shutil.copy(file, target / part / file.name)


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
    return target


def can_connect(url: str) -> bool:
    """Whether a connection to `url` succeeds within two seconds."""
    try:
        with psycopg.connect(url, connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False


def create_database(server_url: str, name: str) -> str:
    """Create a database and return its URL. `server_url` is a superuser's URL of any database of the server."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return with_database(server_url, name)


def drop_database(server_url: str, name: str) -> None:
    """Drop a database with its replication slots, ending whoever uses them."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s AND active_pid IS NOT NULL",
            (name,),
        )
        for (slot,) in connection.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE database = %s", (name,)
        ).fetchall():
            _drop_slot(connection, slot)
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _drop_slot(connection: psycopg.Connection[tuple[object, ...]], slot: str) -> None:
    """Drop a slot whose walsender was told to end a moment ago; the server needs an instant to release it."""
    for attempt in range(100):
        try:
            connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
        except psycopg.errors.UndefinedObject:
            return
        except psycopg.errors.ObjectInUse:
            if attempt == 99:
                raise
            connection.execute(
                "SELECT pg_terminate_backend(active_pid), pg_sleep(0.05) FROM pg_replication_slots"
                " WHERE slot_name = %s AND active_pid IS NOT NULL",
                (slot,),
            )
        else:
            return


def with_database(url: str, database: str) -> str:
    """Return `url` with another database name."""
    return urlsplit(url)._replace(path=f"/{database}").geturl()


def connection_parts(url: str) -> dict[str, str]:
    """Return what a URL (or libpq's other form) says: `host`, `port`, `user`, `password`, `dbname` and so on."""
    return {name: str(value) for name, value in psycopg.conninfo.conninfo_to_dict(url).items()}
