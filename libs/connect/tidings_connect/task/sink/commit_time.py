"""When the change that a record tells of was committed at its source."""

from collections.abc import Mapping
from datetime import datetime

from tidings_connect.task.sink.task import SinkRecord

_UNITS = (("ts_us", 1000), ("ts_ms", 1), ("ts_ns", 1_000_000))
"""Of an envelope's source, how many of them a millisecond has; microseconds first, as the more exact."""
OF_COMMIT = frozenset(f"source.{name}" for name, _ in _UNITS)
"""The fields of an envelope that are looked at here."""
_UNWRAPPED = ("__source_ts_ms", "__source.ts_ms")
"""What ``ExtractNewRecordState`` makes of the source's time with ``add.fields=source.ts_ms``."""


def committed_ms(record: SinkRecord) -> int | None:
    """Milliseconds since the Unix epoch: of an envelope its source's time, of a business event ``ce_time``, else the record's
    own timestamp; None where it has none of them."""
    value = record.value
    if type(value) is dict or isinstance(value, Mapping):  # the former is much faster
        source = value.get("source")
        if isinstance(source, Mapping):
            for name, units in _UNITS:
                found = source.get(name)
                if isinstance(found, int):
                    return found // units
        for name in _UNWRAPPED:
            found = value.get(name)
            if isinstance(found, int):
                return found
    return _of_event(record) or record.timestamp


def _of_event(record: SinkRecord) -> int | None:
    for header in record.headers:
        if header.key == "ce_time" and isinstance(header.value, str):
            try:
                moment = datetime.fromisoformat(header.value)
            except ValueError:
                return None
            return None if moment.tzinfo is None else int(moment.timestamp() * 1000)
    return None
