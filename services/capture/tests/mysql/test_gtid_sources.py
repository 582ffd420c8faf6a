"""Whose transactions count, without a server."""

import pytest

from tidings_capture.mysql.binlog.file_position import FileId
from tidings_capture.mysql.binlog.gtid import Gtid
from tidings_capture.mysql.binlog.gtid_set import MySqlGtid
from tidings_capture.mysql.connector import MariaDbConnector, MySqlConnector
from tidings_capture.mysql.flavours.mysql import MYSQL
from tidings_capture.mysql.settings.config import read_config

UUID = "24bc7850-2c16-11e6-a073-0242ac110002"
CONFIG = {"database.hostname": "h", "database.user": "u", "database.server.id": "1", "topic.prefix": "p"}


@pytest.mark.parametrize(
    ("options", "gtid", "hides"),
    [
        ({}, Gtid(0, 1, 5), False),
        ({"includes": "0-1"}, Gtid(0, 1, 5), False),
        ({"includes": "0-1"}, Gtid(0, 11, 5), True),
        ({"includes": "0-.*, 2-7"}, Gtid(2, 7, 5), False),
        ({"excludes": "0-.*"}, Gtid(0, 11, 5), True),
        ({"excludes": "0-.*", "filter.dml.events": "false"}, Gtid(0, 11, 5), False),
        ({"excludes": UUID.upper()}, MySqlGtid(UUID, "tag", 5), True),
        ({"includes": UUID}, FileId("log.000001", 4), False),
        ({"excludes": UUID}, FileId("log.000001", 4, f"{UUID}:5"), True),
    ],
)
def test_what_is_left_out(options: dict[str, str], gtid: Gtid | MySqlGtid | FileId, hides: bool) -> None:
    config = CONFIG | {f"gtid.source.{name}": value for name, value in options.items()}
    assert read_config(config, MYSQL).sources.hide(gtid.origin) is hides


@pytest.mark.parametrize("connector", [MariaDbConnector(), MySqlConnector()])
def test_both_lists_are_refused_and_what_is_no_expression(connector: MariaDbConnector) -> None:
    problems = connector.problems(CONFIG | {"gtid.source.includes": "0-1", "gtid.source.excludes": "0-2"})
    assert "Cannot specify GTID excludes" in " ".join(problems["gtid.source.excludes"])
    problems = connector.problems(CONFIG | {"gtid.source.includes": "0-(1"})
    assert "is not a regular expression" in " ".join(problems["gtid.source.includes"])
