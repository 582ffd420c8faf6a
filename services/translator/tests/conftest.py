"""What the tests of the two running stages share. The package `bikes` beside this file is importable in them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def make_stage(
    kafka_bootstrap: str, registry_url: str, unique_name: str, tmp_path: Path
) -> Iterator[Callable[..., object]]:
    """`make_stage("sequencer", TIDINGS_X="y")` is a running process on the test's own topics (`unique_name`)."""
    from bikes.processes import StageProcess

    with ExitStack() as running:

        def make(stage: str, *, log: str = "", **settings: str) -> StageProcess:
            settings = {
                "TIDINGS_KAFKA": kafka_bootstrap,
                "TIDINGS_REGISTRY": registry_url,
                "TIDINGS_SOURCE": unique_name,
                "BIKES_NAME": unique_name,
                **settings,
            }
            return running.enter_context(StageProcess(stage, tmp_path / f"{log or stage}.log", **settings))

        yield make
