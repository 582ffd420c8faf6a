"""The former name of `tidings_connect.data.schemas`."""

import warnings

from tidings_connect.data.schemas import (
    PerSchema,
    bare,
    basics,
    copied,
    default_of,
    field_of,
    get,
    get_by_name,
    is_envelope,
    require_map,
    require_struct,
    same_text,
    type_name,
    with_defaults,
)

__all__ = [
    "PerSchema",
    "bare",
    "basics",
    "copied",
    "default_of",
    "field_of",
    "get",
    "get_by_name",
    "is_envelope",
    "require_map",
    "require_struct",
    "same_text",
    "type_name",
    "with_defaults",
]

warnings.warn(
    f"{__name__} is now tidings_connect.data.schemas; the old name goes with the next release",
    FutureWarning,
    stacklevel=2,
)
