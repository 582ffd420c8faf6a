"""Kafka Connect's own transforms and predicates, by their Java class names (``org.apache.kafka.connect.transforms``)."""

from typing import Final

from tidings_connect.transforms.kafka.cast import Cast
from tidings_connect.transforms.kafka.fields import (
    ExtractField,
    HoistField,
    InsertField,
    MaskField,
    ReplaceField,
    ValueToKey,
)
from tidings_connect.transforms.kafka.flatten import Flatten
from tidings_connect.transforms.kafka.headers import DropHeaders, HeaderFrom, InsertHeader
from tidings_connect.transforms.kafka.metadata import Filter, SetSchemaMetadata
from tidings_connect.transforms.kafka.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches
from tidings_connect.transforms.kafka.routers import RegexRouter, TimestampRouter
from tidings_connect.transforms.kafka.sides import Sided, both_sides
from tidings_connect.transforms.kafka.timestamps import TimestampConverter
from tidings_connect.transforms.record import Predicate, Transform

_PACKAGE: Final = "org.apache.kafka.connect.transforms."
_SIDED: Final[tuple[type[Sided], ...]] = (
    Cast, ExtractField, Flatten, HeaderFrom, HoistField, InsertField, MaskField, ReplaceField, SetSchemaMetadata,
    TimestampConverter,
)  # fmt: skip
_WHOLE: Final[tuple[type[Transform], ...]] = (
    DropHeaders, Filter, InsertHeader, RegexRouter, TimestampRouter, ValueToKey,
)  # fmt: skip

TRANSFORMS: Final[dict[str, type[Transform]]] = {
    name: found for base in _SIDED for name, found in both_sides(_PACKAGE + base.__name__, base).items()
} | {_PACKAGE + found.__name__: found for found in _WHOLE}
PREDICATES: Final[dict[str, type[Predicate]]] = {
    f"{_PACKAGE}predicates.{found.__name__}": found
    for found in (HasHeaderKey, RecordIsTombstone, TopicNameMatches)
}
