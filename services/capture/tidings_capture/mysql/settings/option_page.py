"""Writes the tables of options in ``docs/mariadb.md``: ``python -m tidings_capture.mysql.settings.option_page docs/mariadb.md``."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from tidings_capture.mysql.settings.options import FIXED, IGNORED, MASKS, REFUSED, REFUSED_PREFIXES, SECTIONS
from tidings_connect.config.framework import FRAMEWORK_TARGETS
from tidings_connect.config.option import Family, Option, Passed
from tidings_connect.config.option_page import Page, main

_CAPTURED: Final = "What is captured"


def with_masks(sections: Mapping[str, Sequence[Option]]) -> Mapping[str, Sequence[Option | Family]]:
    """Tables of options with those whose names follow a pattern."""
    return {**sections, _CAPTURED: (*sections[_CAPTURED], *MASKS)}


PAGE: Final = Page(
    sections=with_masks(SECTIONS),
    passed=(*IGNORED, *FRAMEWORK_TARGETS),
    fixed=FIXED,
    refused=(*REFUSED, *(Passed(prefix) for prefix in REFUSED_PREFIXES)),
)
COMMAND: Final = "python -m tidings_capture.mysql.settings.option_page"

if __name__ == "__main__":
    sys.exit(main(PAGE, COMMAND))
