"""Moved to `tidings_domain.testing`."""

from tidings_domain.testing import *  # noqa: F403 - all that it was
from tidings_domain.testing import Outcome
from tidings_translator.moved import warn_moved

Told = Outcome

warn_moved(__name__, "tidings_domain.testing")
