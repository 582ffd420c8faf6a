"""Which of a connector's options are secret, and what stands for their values in answers."""

import re
from collections.abc import Mapping
from typing import Final

from tidings_capture.config_providers import is_reference
from tidings_capture.naming import java_pattern
from tidings_capture.option_checks import java_pattern_problem
from tidings_capture.option_table import OPTIONS

MASK: Final = "********"
"""Stands for a password in answers; a configuration that comes back with it keeps the stored one."""
_SECRET_NAME: Final = re.compile(
    r"password|secret|basic\.auth\.user\.info|sasl\.jaas\.config|ssl\.key$|ssl\.keystore\.key$|auth\.token$"
)
_URL_PASSWORD: Final = re.compile(r"://[^/@\s]*:[^/@\s]+@")
"""``https://user:password@host``"""


def passwords(config: Mapping[str, str]) -> frozenset[str]:
    """The names of options in `config` whose values are secret; a reference to a secret is none."""
    names = secret_options(config) | {name for name, value in config.items() if _URL_PASSWORD.search(value)}
    return frozenset(name for name in names if not is_reference(config[name]))


def secret_options(config: Mapping[str, str]) -> frozenset[str]:
    """The names of options in `config` that are there for secrets."""
    custom = config.get("custom.sanitize.pattern", "").strip()
    own = java_pattern(custom) if custom and java_pattern_problem(custom) is None else None
    return frozenset(
        name
        for name in config
        if (own is not None and own.fullmatch(name))
        or (name in OPTIONS and OPTIONS[name].kind == "password")
        or _SECRET_NAME.search(name)
    )
