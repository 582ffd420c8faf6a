"""The options of MySQL's connector: MariaDB's, but for the values of some."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidings_capture.mysql.client import PREFERRED
from tidings_capture.mysql.settings.options import OBEYED, SECTIONS
from tidings_connect.config.option import Option

TLS: Final[Mapping[str, str]] = {
    "preferred": PREFERRED,
    "disabled": "disable",
    "required": "trust",
    "verify_ca": "verify-ca",
    "verify_identity": "verify-full",
}
"""Values of ``database.ssl.mode``, and what they are to a connection."""


def _of_mysql(option: Option) -> Option:
    match option.name:
        case "database.ssl.mode":
            return replace(option, default="preferred", values=tuple(TLS))
        case "snapshot.locking.mode":
            return replace(
                option,
                documentation="Which tables cannot be written while a snapshot begins (minimal) or is read (extended).",
                remark="See [snapshots](#snapshots-and-locks). Percona's modes are refused.",
            )
        case "include.query":
            return replace(option, remark="`binlog_rows_query_log_events` must be on at the server.")
        case "signal.data.collection":
            return replace(
                option,
                remark="Without GTIDs incremental snapshots need it, and `binlog_order_commits=ON` at the server.",
            )
        case "read.only":
            return replace(option, remark="Needs `gtid_mode=ON` at the server.")
        case _ if option.remark.startswith("See [") and "(#" in option.remark:
            return replace(option, remark=option.remark.replace("(#", "(mariadb.md#"))
        case _:
            return option


SECTIONS_OF_MYSQL: Final[Mapping[str, tuple[Option, ...]]] = {
    title: tuple(_of_mysql(option) for option in options) for title, options in SECTIONS.items()
}
OBEYED_OF_MYSQL: Final = tuple(option for options in SECTIONS_OF_MYSQL.values() for option in options)
assert [option.name for option in OBEYED_OF_MYSQL] == [option.name for option in OBEYED]
