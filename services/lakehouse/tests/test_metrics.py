"""What the job's metrics show before anything has happened."""

from prometheus_client import REGISTRY

from tidings_lakehouse.metrics import begin


def test_a_stream_counts_its_batches_from_zero() -> None:
    """What first shows with its first batch has no increase by it, and no quantile of its seconds."""
    begin("of-this-test")
    for name in ("batches_total", "batch_seconds_count"):
        assert REGISTRY.get_sample_value(f"tidings_lakehouse_{name}", {"stream": "of-this-test"}) == 0
