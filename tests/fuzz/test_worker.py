"""Twenty seconds of random requests and signals for a running worker."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzzing.worker import opened, run

from tidings_stack.capture import CaptureWorkers

WORKER_SECONDS = 20.0


@pytest.fixture
def workers(kafka_bootstrap: str, tmp_path: Path) -> Iterator[CaptureWorkers]:
    with CaptureWorkers(tmp_path, kafka_bootstrap) as made:
        yield made


@pytest.mark.stack
def test_whatever_is_asked_of_a_worker(
    workers: CaptureWorkers, kafka_bootstrap: str, pg_database: str, unique_name: str, tmp_path: Path
) -> None:
    with opened(workers, kafka_bootstrap, pg_database, f"{unique_name}-{os.getpid()}", tmp_path) as target:
        outcome = run(target, seed=1, seconds=WORKER_SECONDS)
    assert target.answers > 10, outcome
    assert not outcome.findings, "\n".join([str(outcome), *outcome.findings])
