"""What the log says while Kafka is away: once, again every minute, and that it is back."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tidings_service import Health
from tidings_translator.base.errors import BrokerError
from tidings_translator.stage import stage as module
from tidings_translator.stage.stage import Stage


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stage of which nothing but its ticks is there."""
    made: Any = Stage.__new__(Stage)
    made.health, made._lock = Health(), asyncio.Lock()
    made._away_since = made._away_said = None
    monkeypatch.setattr(Stage, "_measure_distance", lambda _: asyncio.sleep(0))
    monkeypatch.setattr(Stage, "_measure_lag", lambda _: None)
    return made


async def test_kafka_is_away_once_and_again_every_minute(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def fail() -> None:
        raise BrokerError("no broker answers")

    with capture_logs() as lines:
        for _ in range(200):
            await stage._tick(SimpleNamespace(tick=fail))
            now[0] += 0.5
        assert [line["seconds"] for line in lines] == [0.0, 60.0]
        assert not stage.health.ready()
        await stage._tick(SimpleNamespace(tick=lambda: asyncio.sleep(0)))
        assert lines[-1] == {"event": "Kafka is back", "seconds": 100.0, "log_level": "info"}
        await stage._tick(SimpleNamespace(tick=fail))
    assert [line["event"] for line in lines].count("Kafka is away") == 3
