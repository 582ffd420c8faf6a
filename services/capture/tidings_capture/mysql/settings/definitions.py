"""The definitions of the options of both connectors (`cdc.recorded_definitions`).

Debezium does not list some options that it obeys, such as ``read.only``: these stand among ours.
"""

from collections.abc import Sequence
from typing import Final

from tidings_capture.cdc.recorded_definitions import RecordedDefinitions
from tidings_capture.mysql.settings.mysql_options import OBEYED_OF_MYSQL
from tidings_capture.mysql.settings.options import FIXED, OBEYED, is_refused
from tidings_connect.config.framework import FRAMEWORK_OPTIONS
from tidings_connect.config.option import Option


def _definitions(file: str, options: Sequence[Option]) -> RecordedDefinitions:
    return RecordedDefinitions(
        "tidings_capture.mysql.settings",
        file,
        options={**FRAMEWORK_OPTIONS, **{option.name: option for option in options}},
        fixed={option.name: option.only or "" for option in FIXED},
        ours=(option for option in options if option.name not in FRAMEWORK_OPTIONS),
        is_refused=is_refused,
    )


OF_MARIADB: Final = _definitions("mariadb_definitions.json", OBEYED)
OF_MYSQL: Final = _definitions("mysql_definitions.json", OBEYED_OF_MYSQL)
