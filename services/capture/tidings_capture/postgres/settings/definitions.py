"""The definitions of the connector's own options (`cdc.recorded_definitions`)."""

from typing import Final

from tidings_capture.cdc.recorded_definitions import RecordedDefinitions
from tidings_capture.postgres.settings.option_table import FIXED, OPTIONS, is_refused, text_beside_options

DEFINITIONS: Final = RecordedDefinitions(
    "tidings_capture.postgres.settings",
    "connect_definitions.json",
    options=OPTIONS,
    fixed=FIXED,
    ours=(option for option in OPTIONS.values() if option.name.startswith("tidings.")),
    is_refused=is_refused,
    text=text_beside_options,
)
