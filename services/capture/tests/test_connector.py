"""PostgreSQL's connector as the worker knows it, without a server."""

import pytest
from structlog.testing import capture_logs

from tidings_capture.postgres.connector import PostgresConnector


@pytest.mark.parametrize(("dropped", "warnings"), [("false", 1), ("true", 0)])
def test_a_deleted_connector_s_slot_is_warned_of_unless_it_was_dropped(dropped: str, warnings: int) -> None:
    with capture_logs() as logs:
        PostgresConnector().deleted("shop", {"slot.name": "s", "slot.drop.on.stop": dropped})
    assert [line["slot"] for line in logs] == ["s"] * warnings
    assert all("pg_drop_replication_slot('s')" in line["hint"] for line in logs)
