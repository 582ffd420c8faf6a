"""Connectors' own labels (``custom.metric.tags``) on the metrics that another collector gives."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tidings_connect.config.metric_tags import tags_of

_PREFIXES: Final = ("debezium_metrics_", "tidings_capture_", "tidings_sink_")


class TaggedCollector(Collector):
    """Another collector's metrics, with connectors' tags.

    Args:
        collector: whose metrics are tagged; their label ``connector`` or ``name`` says whose they are.
        configs: every connector's configuration, by its name.
    """

    def __init__(
        self, collector: Collector, configs: Callable[[], Iterable[tuple[str, Mapping[str, str]]]]
    ) -> None:
        self._collector = collector
        self._configs = configs

    def collect(self) -> Iterator[Metric]:
        """All families, as they are where no connector has tags."""
        tags: dict[tuple[str, str], dict[str, str]] = {}
        for connector, config in self._configs():
            if found := tags_of(config):
                tags["connector", connector] = found
                # Debezium's metrics go by the topic prefix.
                tags["name", connector] = tags["name", config.get("topic.prefix", connector)] = found
        for family in self._collector.collect():
            if tags and family.name.startswith(_PREFIXES):
                family.samples = [
                    sample._replace(labels={**_tags(sample.labels, tags), **sample.labels})
                    for sample in family.samples
                ]
            yield family


def _tags(labels: Mapping[str, str], tags: Mapping[tuple[str, str], dict[str, str]]) -> dict[str, str]:
    for label in ("connector", "name"):
        if label in labels:
            return tags.get((label, labels[label]), {})
    return {}
