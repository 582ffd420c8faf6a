"""Runs a connector of ours and Debezium's with the same options over the same tables of MariaDB or MySQL."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from binlog.sides import OURS, Sides, configured
from side_by_side import Side

from tidings_capture.mysql.connector import MariaDbConnector, MySqlConnector
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.connect import ConnectServer
from tidings_stack.mariadb import MySqlLikeServer
from tidings_stack.waiting import wait_for


class Compared:
    """Runs both connectors over the same tables.

    Args:
        name: of both connectors, their prefix, and the database that they capture.
    """

    def __init__(
        self,
        run: Callable[..., object],
        server: MySqlLikeServer,
        plugins: ConnectServer,
        kafka_bootstrap: str,
        name: str,
    ) -> None:
        self._run, self._server, self._plugins = run, server, plugins
        self._bootstrap, self._name = kafka_bootstrap, name

    @contextmanager
    def running(self, options: dict[str, str], topic: str, **ours: str) -> Iterator[Sides]:
        """Both have taken their snapshots of what is there.

        Args:
            topic: has a record then.
            ours: options of our side only, with underscores for dots.
        """
        kind = MySqlConnector if self._server.name == "mysql" else MariaDbConnector
        config = configured(self._server, self._bootstrap, self._name, kind.class_name) | options
        config = {"include.schema.changes": "false", "provide.transaction.metadata": "true"} | config
        side = Side(self._plugins.url, self._name, self._bootstrap)
        with MemoryWorker(kind(), self._name) as worker, side.deleted_at_last():
            side.create(config)
            worker.put({**config, **OURS, **{name.replace("_", "."): value for name, value in ours.items()}})
            sides = Sides(side, worker)
            sides.await_both(topic, 1, 120)
            wait_for("our snapshot", lambda: bool(worker.offsets()), 60)
            yield sides

    def differences(
        self,
        options: dict[str, str],
        tables: tuple[str, ...],
        rows: tuple[str, ...],
        topics: dict[str, int],
        **ours: str,
    ) -> list[str]:
        """Where they differ.

        Args:
            tables: statements before the snapshot.
            rows: statements behind it.
            topics: what comes behind the prefix, and how many records each has at the end.
            ours: as for `running`.
        """
        self._run(*tables)
        full = {f"{self._name}.{topic}" if topic else self._name: count for topic, count in topics.items()}
        with self.running(options, next(iter(full)), **ours) as sides:
            self._run(*rows)
            for topic, count in full.items():
                sides.await_both(topic, count)
            return sides.differences(full)
