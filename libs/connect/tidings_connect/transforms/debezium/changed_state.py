"""ExtractChangedRecordState: headers that name the columns that an update changed, and those that it did not."""

import functools

from tidings_connect.data.schemas import is_envelope
from tidings_connect.transforms.config import ConfigSpec, Setting, Settings
from tidings_connect.transforms.record import Header, SourceRecord, Transform
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema, ConnectType


class ExtractChangedRecordState(Transform):
    """See the module."""

    CONFIG = ConfigSpec(Setting("header.changed.name"), Setting("header.unchanged.name"))

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._changed = settings.optional("header.changed.name") or ""
        self._schema = functools.cache(_schema)
        self._unchanged = settings.optional("header.unchanged.name") or ""

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        if record.value is None or not is_envelope(record.value_schema):
            return record
        before, after = record.value.get("before"), record.value.get("after")
        changed: list[str] = []
        unchanged: list[str] = []
        if before is not None and after is not None:
            for name, value in after.items():
                (unchanged if value == before.get(name) else changed).append(name)
        for name, names in ((self._changed, changed), (self._unchanged, unchanged)):
            if name:
                record.headers.append(Header(name, self._schema(name), names))
        return record


def _schema(name: str) -> ConnectSchema:
    return ConnectSchema(ConnectType.ARRAY, optional=True, name=name, items=semantic.OPTIONAL_STRING)
