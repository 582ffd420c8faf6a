"""Fixtures of the client's tests. The package `publishing` beside this file is importable in them."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from publishing import Publisher


@pytest.fixture
def publisher(kafka_bootstrap: str, registry_url: str, unique_name: str) -> Publisher:
    return Publisher(kafka_bootstrap, registry_url, unique_name)


@pytest.fixture
def reading(kafka_bootstrap: str, registry_url: str, unique_name: str) -> Callable[..., dict[str, Any]]:
    """The settings of a reader."""

    def settings(**more: Any) -> dict[str, Any]:
        return {
            "kafka": kafka_bootstrap,
            "registry": registry_url,
            "group": f"{unique_name}-readers",
            "settings": {"session.timeout.ms": 6000},
            **more,
        }

    return settings
