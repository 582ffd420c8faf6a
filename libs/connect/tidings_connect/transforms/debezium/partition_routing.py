"""PartitionRouting: the partition by a hash of fields of the change event."""

from typing import Any

from tidings_connect.data.schemas import field_of, get, is_envelope
from tidings_connect.java.hash import java_hash, murmur_hash
from tidings_connect.transforms.config import ConfigSpec, Setting, Settings
from tidings_connect.transforms.record import SourceRecord, Transform
from tidings_envelope.schema import ConnectSchema, ConnectType

_LARGEST = 2**31 - 1


def _positive(number: int) -> str | None:
    return None if number > 0 else "A positive, non-zero integer value is expected"


def _no_empty(items: list[str]) -> str | None:
    return None if items and all(items) else "Empty elements are not allowed"


class PartitionRouting(Transform):
    """See the module. Fields that a record does not have, or that are null, are left out of the sum."""

    CONFIG = ConfigSpec(
        Setting("partition.payload.fields", "list", required=True, check=_no_empty),
        Setting("partition.topic.num", "int", required=True, check=_positive),
        Setting("partition.hash.function", default="java", values=("java", "murmur")),
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        fields = settings.items_of("partition.payload.fields")
        self._paths = [[step.strip() for step in field.split(".")] for field in fields]
        self._partitions = int(settings["partition.topic.num"])
        java = settings.text("partition.hash.function").lower() == "java"
        self._hash = java_hash if java else murmur_hash

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        schema = record.value_schema
        if record.value is None or schema is None or not is_envelope(schema):
            return record
        op = record.value.get("op")
        if op in ("t", "m"):
            return record
        change = "before" if op == "d" else "after"
        found = [self._found(path, change, schema, record.value) for path in self._paths]
        values = [each for each in found if each is not None]
        if not values:
            return record
        total = sum(self._hash(*each) for each in values) & _LARGEST
        return record._replace(partition=(0 if total == _LARGEST else total) % self._partitions)

    @staticmethod
    def _found(
        path: list[str], change: str, schema: ConnectSchema, value: dict[str, Any]
    ) -> tuple[ConnectSchema, Any] | None:
        current: Any = value
        for index, step in enumerate(path):
            is_last = index == len(path) - 1
            field = field_of(schema, change if step == "change" and not is_last else step)
            if field is None or current is None:
                return None
            current, schema = get(current, field), field.schema
            if not is_last and schema.type is not ConnectType.STRUCT:
                return None
        return None if current is None else (schema, current)
