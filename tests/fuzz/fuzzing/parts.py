"""The parts that need no server."""

from typing import Final

from fuzzing import configuring, reading
from fuzzing.running import Case

PURE: Final[dict[str, Case]] = {
    "envelopes": reading.envelopes,
    "schemas": reading.schemas,
    "client": reading.client,
    "changes": reading.change_sets,
    "properties": configuring.properties,
    "workers": configuring.workers,
    "connectors": configuring.connectors,
    "signals": configuring.signals,
}
