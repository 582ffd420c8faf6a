"""The schemas that records bring themselves, kept beside those of the registry, by the ids that `json_records` gives them.

They are read out of the first batch that has them, and again by the next process: nothing of them is stored.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as sf

from tidings_lakehouse.formats.connect_schemas import avro_of
from tidings_lakehouse.formats.json_records import given_id, is_json_id, schema_text
from tidings_lakehouse.formats.registry import SchemaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_SCHEMAS = 10_000
"""Of a process; more come from a producer that writes into a schema what belongs into the payload."""


class _Known(NamedTuple):
    text: str
    age: tuple[int, int]


class JsonSchemas:
    """A `SchemaSource` that has those of records, too; for the threads of a stream.

    Args:
        registry: asked for all others.
        given: the text of schemas of topics whose records bring none, by subject.
    """

    def __init__(self, registry: SchemaSource, given: Mapping[str, str] | None = None) -> None:
        self._registry = registry
        self._given = {given_id(text): text for text in (given or {}).values()}
        self.given = {subject: given_id(text) for subject, text in (given or {}).items()}
        """Their ids, by subject."""
        self._known: dict[int, _Known] = {}
        self._lock = threading.Lock()

    def unknown(self, ids: Iterable[int]) -> set[int]:
        """Those that have to be learned."""
        with self._lock:
            return {one for one in ids if is_json_id(one) and one not in self._known}

    def learn(self, records: DataFrame, ages: dict[int, tuple[int, int]]) -> None:
        """Read schemas out of records that have them.

        Args:
            records: with the columns of `with_schema_ids`.
            ages: of the schemas that are unknown: time in microseconds and offset of their first record.
        """
        with self._lock:
            for schema_id in self._given.keys() & ages.keys():
                self._known.setdefault(schema_id, _Known(self._given[schema_id], ages[schema_id]))
        for column in ("value", "key"):
            wanted = sorted(self.unknown(ages))[:MOST_SCHEMAS]
            if not wanted:
                return
            named = f"{column}_id"
            rows = (
                records.where(sf.col(named).isin(wanted))
                .groupBy(named)
                .agg(sf.first(schema_text(column)))
                .collect()
            )
            with self._lock:
                for schema_id, text in rows:
                    if len(self._known) < MOST_SCHEMAS:
                        self._known[schema_id] = _Known(text, ages[schema_id])

    # --- SchemaSource

    def close(self) -> None:
        """See `SchemaSource`."""
        self._registry.close()

    def check(self) -> None:
        """See `SchemaSource`."""
        self._registry.check()

    def by_id(self, schema_id: int) -> Any | None:
        """See `SchemaSource`.

        Raises:
            UnsupportedSchemaError, RecursionError: a schema that a record brings is none.
        """
        if not is_json_id(schema_id):
            return self._registry.by_id(schema_id)
        with self._lock:
            known = self._known.get(schema_id)
        if known is None:
            return None
        try:
            schema = json.loads(known.text)
        except ValueError:
            return None
        return avro_of(schema)

    def latest(self, subject: str) -> Any | None:
        """See `SchemaSource`; the registry's."""
        return self._registry.latest(subject)

    def age(self, schema_id: int) -> tuple[int, int]:
        """See `SchemaSource`. A topic that has both kinds has gone over from JSON to Avro."""
        if not is_json_id(schema_id):
            return self._registry.age(schema_id)
        with self._lock:
            known = self._known.get(schema_id)
        return (0, 0) if known is None else known.age

    def missing(self, schema_id: int) -> str:
        """See `SchemaSource`."""
        if not is_json_id(schema_id):
            return self._registry.missing(schema_id)
        with self._lock:
            is_known = schema_id in self._known
        if is_known:
            return "its schema cannot be read"
        return f"more than {MOST_SCHEMAS} schemas have come with records since the job began"
