"""The laboratory of `tidings doctor`: a sound system on real servers, in which one thing is made wrong."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg.conninfo import conninfo_to_dict

from tidings_stack.waiting import wait_for

MOST = 3
"""Slots, and senders, of the server."""
KEPT = "10GB"
"""Its max_slot_wal_keep_size."""


@dataclass
class Lab:
    """A sound system: a database with a published table, a worker's topics; `arguments` look at all of it."""

    url: str
    bootstrap: str
    name: str
    directory: Path
    write: Callable[..., list[str]]
    monkeypatch: pytest.MonkeyPatch
    pg_server: Callable[..., Any]
    more: ExitStack
    options: dict[str, str] = field(default_factory=dict)
    also: list[str] = field(default_factory=list)
    with_kafka: bool = False

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def topic(self, suffix: str, partitions: int = 1, **config: str) -> None:
        self.with_kafka = True
        topic = NewTopic(
            self.name + suffix, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()}
        )
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # its requests end with it
        admin.create_topics([topic])[topic.topic].result(30)

    def setting(self, name: str, value: str) -> None:
        """Of the server, until the test ends."""
        before = self._read(name)
        self._set(name, value)
        self.more.callback(self._set, name, before)

    def _set(self, name: str, value: str) -> None:
        self.run(f"ALTER SYSTEM SET {name} = '{value}'", "SELECT pg_reload_conf()")
        wait_for(f"the server to read {name}", lambda: self._read(name) == value, 60)

    def _read(self, name: str) -> str:
        with psycopg.connect(self.url) as connection:
            (value,) = connection.execute("SELECT current_setting(%s)", (name,)).fetchone() or ("",)
        return str(value)

    def slot(self, name: str, url: str | None = None, *, plugin: str | None = None) -> None:
        """A slot that retains WAL from now on, until the test ends."""
        make = (
            f"SELECT pg_create_physical_replication_slot('{name}', true)"
            if plugin is None
            else f"SELECT pg_create_logical_replication_slot('{name}', '{plugin}')"
        )
        with psycopg.connect(url or self.url, autocommit=True) as connection:
            connection.execute(make.encode())
        self.more.callback(self._drop_slot, name)

    def _drop_slot(self, name: str) -> None:
        """Whoever read it has gone; a busy server notices that some time later."""
        active = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
        with psycopg.connect(self.url, autocommit=True) as connection:
            wait_for(
                f"the end of what reads {name}",
                lambda: connection.execute(active, (name,)).fetchone() == (False,),
                60,
            )
            connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))

    def write_wal(self, segments: int) -> None:
        """So many segments of 16 MB, begun and left."""
        for _ in range(segments):
            self.run("INSERT INTO a SELECT coalesce(max(id), 0) + 1 FROM a", "SELECT pg_switch_wal()")

    def as_role(self, attributes: str, *grants: str) -> None:
        """Have the connector log in as a role that may only this."""
        role = f"r_{self.name}"
        self.run(f"CREATE ROLE {role} LOGIN PASSWORD 'secret-word' {attributes}")
        self.more.callback(self.run, f"DROP OWNED BY {role}; DROP ROLE {role}")
        self.run(*(grant.format(role=role) for grant in grants))
        self.login(role)

    def login(self, role: str) -> None:
        self.options |= {"database_user": role, "database_password": "secret-word"}

    def between(self, between: "Between") -> None:
        """Have the connector come by a pooler or a proxy."""
        self.more.callback(between.close)
        self.options |= {
            "database_hostname": "127.0.0.1", "database_port": between.port, "database_sslmode": "disable",
        }  # fmt: skip

    def arguments(self) -> list[str]:
        options = {"publication_autocreate_mode": "disabled", "publication_name": "sound", **self.options}
        return [*self.write(self.url, self.bootstrap if self.with_kafka else None, **options), *self.also]


class Between:
    """A pooler or a proxy before a real PostgreSQL; a process, because libpq holds Python's lock while it connects."""

    def __init__(self, url: str, *options: str) -> None:
        place = conninfo_to_dict(url)
        script = Path(__file__).with_name("between.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(place["host"]), str(place["port"]), *options],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.port = self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)


Planter = Callable[[Lab], None]
PLANTED: dict[str, tuple[str, Planter]] = {}
"""By the fault's name: the finding's code, and what makes it."""


def planted(code: str, name: str | None = None) -> Callable[[Planter], Planter]:
    def add(planter: Planter) -> Planter:
        PLANTED[name or planter.__name__] = (code, planter)
        return planter

    return add
