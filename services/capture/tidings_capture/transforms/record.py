"""The former name of `tidings_connect.transforms.record`."""

import warnings

from tidings_connect.transforms.record import DataError, Header, Predicate, SourceRecord, Transform

__all__ = ["DataError", "Header", "Predicate", "SourceRecord", "Transform"]

warnings.warn(
    f"{__name__} is now tidings_connect.transforms.record; the old name goes with the next release",
    FutureWarning,
    stacklevel=2,
)
