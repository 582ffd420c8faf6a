"""Writes the tables of options in ``docs/mysql.md``: ``python -m tidings_capture.mysql.settings.mysql_option_page docs/mysql.md``."""

import sys
from dataclasses import replace
from typing import Final

from tidings_capture.mysql.settings.mysql_options import SECTIONS_OF_MYSQL
from tidings_capture.mysql.settings.option_page import PAGE as OF_MARIADB
from tidings_capture.mysql.settings.option_page import with_masks
from tidings_connect.config.option_page import main

PAGE: Final = replace(OF_MARIADB, sections=with_masks(SECTIONS_OF_MYSQL))
COMMAND: Final = "python -m tidings_capture.mysql.settings.mysql_option_page"

if __name__ == "__main__":
    sys.exit(main(PAGE, COMMAND))
