"""The settings of Kafka's Java consumer that a sink may override, as librdkafka's. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from tidings_connect.errors import OptionError
from tidings_connect.kafka.settings import translate_client_settings, unknown_settings

MOST_RECORDS: Final = "max.poll.records"
_SAME: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.offset.reset",
        "check.crcs",
        "group.id",
        "group.instance.id",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
    }
)
_RENAMED: Final = {"fetch.max.wait.ms": "fetch.wait.max.ms"}
_STRATEGY: Final = "partition.assignment.strategy"
_OURS: Final = frozenset({MOST_RECORDS, "enable.auto.commit", _STRATEGY, "default.api.timeout.ms"})
"""What is done here whatever they say, or elsewhere."""


def unknown_consumer_settings(names: Iterable[str]) -> list[str]:
    """Those of `names` that have no counterpart here."""
    return [name for name in unknown_settings(names) if name not in _SAME | _RENAMED.keys() | _OURS]


def consumer_settings(given: Mapping[str, str], prefix: str = "") -> dict[str, str]:
    """librdkafka's settings for those of a Java consumer.

    Raises:
        OptionError: a value that cannot be taken; names the setting.
    """
    found = translate_client_settings(given, prefix)
    found |= {name: value.strip() for name, value in given.items() if name in _SAME}
    found |= {_RENAMED[name]: value.strip() for name, value in given.items() if name in _RENAMED}
    reset = found.get("auto.offset.reset", "earliest").lower()
    if reset not in {"earliest", "latest", "none"}:
        raise OptionError(
            f"{prefix}auto.offset.reset={reset} is not supported", hint="earliest, latest and none are"
        )
    if "auto.offset.reset" in found:
        found["auto.offset.reset"] = "error" if reset == "none" else reset
    return found
