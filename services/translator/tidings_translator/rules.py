"""Moved to `tidings_domain`."""

from tidings_domain.language.rules import *  # noqa: F403 - all that it was
from tidings_translator.moved import warn_moved

warn_moved(__name__, "tidings_domain")
