"""What runs in a worker beside all of its connectors."""

from typing import Any
from unittest.mock import MagicMock

from prometheus_client import CollectorRegistry

from tidings_capture.mysql.companion import BinlogCompanion
from tidings_capture.postgres.companion import SlotCompanion
from tidings_capture.query.companion import UnseenCompanion
from tidings_connect.config.plugins import connectors
from tidings_connect.series_bounds import SeriesBounds


def test_the_metrics_of_all_companions_go_into_one_registry() -> None:
    """A worker registers them at its start, which fails where two have the same name."""
    host: Any = MagicMock()
    registry = CollectorRegistry()
    made = [connector.companion(host, SeriesBounds(100)) for connector in connectors().values()]
    companions = [companion for companion in made if companion is not None]
    for companion in companions:
        for collector in companion.collectors:
            registry.register(collector)
    assert {type(companion) for companion in companions} == {BinlogCompanion, SlotCompanion, UnseenCompanion}
    assert len(companions) == 3
