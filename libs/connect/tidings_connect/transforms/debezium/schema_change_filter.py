"""SchemaChangeEventFilter: drops records of the schema-changes topic by their kind.

Debezium's are told by the table change within; our own (``tidings.schema.changes``) by the first word of their command,
such as ``ALTER``, which a change that was only seen from a Relation message counts as.
"""

from typing import Final

from tidings_connect.transforms.config import ConfigSpec, Setting, Settings
from tidings_connect.transforms.record import SourceRecord, Transform

_TYPES: Final = ("CREATE", "ALTER", "DROP", "TRUNCATE", "DATABASE")
_OURS: Final = "tidings.capture.SchemaChange"
"""The schema of our own records; see `plan_schema_changes`."""
_SUFFIXES: Final = (".SchemaChangeValue", ".SchemaChangeKey")


def _known(text: str) -> str | None:
    wrong = [part.strip() for part in text.split(",") if part.strip() not in _TYPES]
    return f"No enum constant {wrong[0]}; it takes {', '.join(_TYPES)}" if wrong else None


class SchemaChangeEventFilter(Transform):
    """See the module. Records with other schemas pass."""

    CONFIG = ConfigSpec(Setting("schema.change.event.exclude.list", required=True, check=_known))

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        text = settings.text("schema.change.event.exclude.list")
        self._excluded = frozenset(part.strip() for part in text.split(","))

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        schema = record.value_schema
        if record.value is None or schema is None or not schema.name:
            return record
        if schema.name == _OURS:
            command = (record.value.get("command") or "ALTER").split()[0]
            return None if command.upper() in self._excluded else record
        if not schema.name.endswith(_SUFFIXES):
            return record
        changes = record.value.get("tableChanges")
        if changes is None:
            return None
        kind = changes[0].get("type") if changes else "DATABASE"
        return None if kind in self._excluded else record
