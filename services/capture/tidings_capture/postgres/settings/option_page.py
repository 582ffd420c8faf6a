"""Writes the tables of options: ``python -m tidings_capture.postgres.settings.option_page docs/debezium-compatibility.md``."""

import sys

from tidings_capture.postgres.settings.option_table import PAGE
from tidings_connect.config.option_page import main

if __name__ == "__main__":
    sys.exit(main(PAGE, "python -m tidings_capture.postgres.settings.option_page"))
