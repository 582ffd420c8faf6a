"""The former name of `tidings_connect.transforms.config`."""

import warnings

from tidings_connect.transforms.config import ConfigSpec, Setting, SettingError, Settings, names, problem_text

__all__ = ["ConfigSpec", "Setting", "SettingError", "Settings", "names", "problem_text"]

warnings.warn(
    f"{__name__} is now tidings_connect.transforms.config; the old name goes with the next release",
    FutureWarning,
    stacklevel=2,
)
