"""custom.metric.tags: labels on a connector's metrics, and what is refused."""

from collections.abc import Iterator

import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tidings_capture.postgres.settings.options import check_options
from tidings_connect.config.metric_tags import problem, tags_of
from tidings_connect.herder.tagged_collector import TaggedCollector


class _Given(Collector):
    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, label in (
            ("debezium_metrics_Connected", "name"),
            ("tidings_capture_lag_seconds", "connector"),
            ("kafka_connect_connector_status", "connector"),
        ):
            family = GaugeMetricFamily(name, "A metric.", labels=[label, "task"])
            for connector in ("one", "two"):
                family.add_metric([f"{connector}-prefix" if label == "name" else connector, "0"], 1)
            yield family


def test_tags_are_labels_of_their_connector_alone() -> None:
    configs = [
        ("one", {"topic.prefix": "one-prefix", "custom.metric.tags": "env=test, team = data=base,"}),
        ("two", {"topic.prefix": "two-prefix"}),
    ]
    found = {
        (sample.name, sample.labels.get("name", sample.labels.get("connector"))): {
            label: sample.labels[label] for label in ("env", "team") if label in sample.labels
        }
        for family in TaggedCollector(_Given(), lambda: configs).collect()
        for sample in family.samples
    }
    tags = {"env": "test", "team": "data=base"}
    assert found == {
        ("debezium_metrics_Connected", "one-prefix"): tags,
        ("debezium_metrics_Connected", "two-prefix"): {},
        ("tidings_capture_lag_seconds", "one"): tags,
        ("tidings_capture_lag_seconds", "two"): {},
        ("kafka_connect_connector_status", "one"): {},
        ("kafka_connect_connector_status", "two"): {},
    }


def test_a_series_keeps_its_own_label_where_a_tag_has_the_same_name() -> None:
    class Given(Collector):
        def collect(self) -> Iterator[GaugeMetricFamily]:
            family = GaugeMetricFamily("tidings_capture_x", "A metric.", labels=["connector", "shade"])
            family.add_metric(["one", "own"], 1)
            yield family

    configs = [("one", {"custom.metric.tags": "shade=tag,env=test"})]
    [family] = TaggedCollector(Given(), lambda: configs).collect()
    assert [s.labels for s in family.samples] == [{"connector": "one", "shade": "own", "env": "test"}]


@pytest.mark.parametrize("text", ["x", "=v", "a=", "a-b=1", "connector=x", "__a=1", "a=1,a=2", "é=1"])
def test_what_cannot_be_a_label_is_refused_by_name(text: str) -> None:
    assert problem(text)
    assert tags_of({"custom.metric.tags": text}) == {}
    assert "custom.metric.tags" in check_options({"custom.metric.tags": text})["custom.metric.tags"][0]
