"""Writes the tables of options in ``docs/mariadb.md``: ``python -m tidings_capture.mysql.settings.option_page docs/mariadb.md``."""

import sys
from typing import Final

from tidings_capture.mysql.settings.options import FIXED, IGNORED, MASKS, REFUSED, REFUSED_PREFIXES, SECTIONS
from tidings_connect.config.framework import FRAMEWORK_TARGETS
from tidings_connect.config.option import Passed
from tidings_connect.config.option_page import Page, main

PAGE: Final = Page(
    sections={**SECTIONS, "What is captured": (*SECTIONS["What is captured"], *MASKS)},
    passed=(*IGNORED, *FRAMEWORK_TARGETS),
    fixed=FIXED,
    refused=(*REFUSED, *(Passed(prefix) for prefix in REFUSED_PREFIXES)),
)
COMMAND: Final = "python -m tidings_capture.mysql.settings.option_page"

if __name__ == "__main__":
    sys.exit(main(PAGE, COMMAND))
