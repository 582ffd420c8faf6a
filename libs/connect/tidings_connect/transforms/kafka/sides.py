"""Transforms that exist for keys and for values: Java's ``$Key`` and ``$Value``."""

from abc import abstractmethod
from typing import Any, ClassVar

from tidings_connect.transforms.record import SourceRecord, Transform
from tidings_envelope.schema import ConnectSchema


class Sided(Transform):
    """A transform of the key or of the value; `on_key` and `on_value` make the two classes."""

    IS_KEY: ClassVar[bool] = False

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        if self.IS_KEY:
            return record.with_key(*self.convert(record.key_schema, record.key))
        return record.with_value(*self.convert(record.value_schema, record.value))

    @abstractmethod
    def convert(self, schema: ConnectSchema | None, value: Any) -> tuple[ConnectSchema | None, Any]:
        """The new schema and value of the side.

        Raises:
            DataError: it cannot be transformed.
        """


def both_sides(name: str, base: type[Sided]) -> dict[str, type[Transform]]:
    """The two classes by their Java names."""
    return {
        f"{name}$Key": type(f"{base.__name__}Key", (base,), {"IS_KEY": True}),
        f"{name}$Value": type(f"{base.__name__}Value", (base,), {"IS_KEY": False}),
    }
