"""Moved to `tidings_domain.errors`; the errors of the running services are in `tidings_translator.base.errors`."""

from tidings_domain.errors import *  # noqa: F403 - all that it was
from tidings_translator.base.errors import *  # noqa: F403 - all that it was
from tidings_translator.moved import warn_moved

warn_moved(__name__, "tidings_domain.errors")
