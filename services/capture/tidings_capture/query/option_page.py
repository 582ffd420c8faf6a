"""Writes the tables of options in ``docs/query-sources.md``.

``python -m tidings_capture.query.option_page docs/query-sources.md``
"""

import sys
from typing import Final

from tidings_capture.query.options import FIXED, OPTIONS, REFUSED, SHARE
from tidings_connect.config.framework import FRAMEWORK_TARGETS
from tidings_connect.config.option_page import Page, main

_OWN: Final = "tidings."
PAGE: Final = Page(
    sections={
        title: [option for option in OPTIONS if option.name.startswith(prefixes)]
        for title, prefixes in {
            "Connection": ("connection.", "db.", "dialect.", "transaction."),
            "Mode": ("mode", "incrementing.", "timestamp.c", "timestamp.d", "timestamp.i", "validate."),
            "Tables, query and topics": ("table.", "catalog.", "schema.", "query", "topic."),
            "Batches and types": ("poll.", "batch.", "max.", "numeric.", "timestamp.g"),
        }.items()
    },
    own=[option for option in OPTIONS if option.name.startswith(_OWN) and option.name != SHARE],
    passed=FRAMEWORK_TARGETS,
    fixed=FIXED,
    refused=REFUSED,
)
COMMAND: Final = "python -m tidings_capture.query.option_page"

if __name__ == "__main__":
    sys.exit(main(PAGE, COMMAND))
