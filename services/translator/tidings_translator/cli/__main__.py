"""``python -m tidings_translator.cli`` is ``tidings-translator``."""

import sys

from tidings_translator.cli.main import translator

sys.exit(translator())
