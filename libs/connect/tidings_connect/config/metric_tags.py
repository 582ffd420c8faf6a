"""``custom.metric.tags``: labels of one's own on a connector's metrics.

Debezium puts these tags into the names of its MBeans, from where the JMX exporter makes labels. Here they are labels on
every metric that belongs to a connector and is Debezium's or ours; Kafka Connect's have none there, and none here.
"""

import re
from collections.abc import Mapping
from typing import Final

OPTION: Final = "custom.metric.tags"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = frozenset(
    {
        "code",
        "connector",
        "context",
        "le",
        "name",
        "outcome",
        "partition",
        "plugin",
        "quantile",
        "reason",
        "state",
    }
    | {"status", "step", "table", "task", "topic"}
)


def problem(text: str) -> str | None:
    """What is wrong with the option's value; None when nothing is."""
    seen = set()
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not equals or not name or not value:
            return "takes name=value pairs with commas between them"
        if not _NAME.fullmatch(name) or name.startswith("__"):
            return f"names {name}, which cannot be a label of a Prometheus metric"
        if name in _RESERVED:
            return f"names {name}, which is a label of the metrics already"
        if name in seen:
            return f"names {name} twice"
        seen.add(name)
    return None


def tags_of(config: Mapping[str, str]) -> dict[str, str]:
    """A connector's tags; none where the option is wrong, which the connector's own check has told."""
    text = config.get(OPTION, "")
    if problem(text) is not None:
        return {}
    pairs = (entry.partition("=") for entry in text.split(",") if entry.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}
