"""The warehouse sink keeps the contract of sinks, and its effects are exactly once."""

from pathlib import Path

import pytest
from warehouse_parts import ask

from tidings_connect.testing.sink_contract import SinkCase, SinkContract
from tidings_sinks.warehouse.connector import WarehouseSink


class TestWarehouse(SinkContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SinkCase:
        file = tmp_path / "warehouse.duckdb"
        ask(
            file,
            "CREATE SEQUENCE places",
            "CREATE TABLE things (place BIGINT DEFAULT nextval('places'), number INTEGER NOT NULL)",
        )
        return SinkCase(
            connector=WarehouseSink(),
            config={
                "connection.url": f"jdbc:duckdb:{file}",
                "table.name.format": "things",
                "flush.interval.ms": "50",
            },
            numbers=lambda: [number for (number,) in ask(file, "SELECT number FROM things ORDER BY place")],
            repeats=False,
            changed={"batch.size": "2"},
            wrong=("insert.mode", "replace"),
        )
