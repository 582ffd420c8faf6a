"""Finds out which server an address leads to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidings_lakehouse.auditing.binlog_server import BinlogServer, connection
from tidings_lakehouse.auditing.mariadb import MariaDbServer
from tidings_lakehouse.auditing.mysql import MySqlServer


@contextmanager
def connected(setting: str, url: str, *, timeout: float, domain: int | None = None) -> Iterator[BinlogServer]:
    """A MariaDB or a MySQL, whichever of the two the URL says; arguments and errors as of `binlog_server.connection` and `BinlogServer`."""
    with connection(setting, url, timeout=timeout) as found:
        is_mariadb = "mariadb" in str(found.get_server_info()).lower()
        yield (MariaDbServer if is_mariadb else MySqlServer)(found, timeout=timeout, domain=domain)
