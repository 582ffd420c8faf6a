"""Schemas from the registry, as the batches need them: by id, and a subject's newest version; null when there is none."""

import json
import sys
from typing import Any, Protocol

from tidings_envelope.errors import RegistryError
from tidings_envelope.registry import RegistryClient
from tidings_lakehouse.errors import RegistryUnreachableError
from tidings_lakehouse.formats.json_records import is_json_id
from tidings_service import SettingsError
from tidings_service.registry_settings import RegistryAccess

_NOT_THERE = frozenset({40401, 40402, 40403})
"""Confluent's codes for no such subject, version or schema; a bare 404 means that the address is wrong."""
_NO_SUBJECT = "tidings-lakehouse-probe"


class SchemaSource(Protocol):
    """Where schemas come from; every method raises RegistryUnreachableError when it does not answer."""

    def close(self) -> None:
        """End its connections."""

    def check(self) -> None:
        """See that the registry answers."""

    def by_id(self, schema_id: int) -> Any | None:
        """The schema with that id as JSON, or None when the registry has none."""

    def latest(self, subject: str) -> Any | None:
        """The newest version's schema of a subject as JSON, or None when the registry has none."""

    def age(self, schema_id: int) -> tuple[int, int]:
        """Sorts ids, the oldest schema first."""

    def missing(self, schema_id: int) -> str:
        """What is said of an id that `by_id` does not know."""


class Registry:
    """A `SchemaSource`, with its login.

    Args:
        access: None when there is no registry: then every id of one is an error.

    Raises:
        SettingsError: it is not a URL.
    """

    def __init__(self, access: RegistryAccess | None) -> None:
        self._client: RegistryClient | None = None
        if access is None:
            return
        try:
            self._client = RegistryClient(access.url, **access.client_arguments())
        except RegistryError as error:
            raise SettingsError(f"TIDINGS_REGISTRY: {error}", hint=error.hint) from error

    def close(self) -> None:
        """See `SchemaSource`."""
        if self._client is not None:
            self._client.close()

    def check(self) -> None:
        """See `SchemaSource`; asks for a subject that there need not be."""
        self.latest(_NO_SUBJECT)

    def by_id(self, schema_id: int) -> Any | None:
        """See `SchemaSource`."""
        if is_json_id(schema_id):
            return None
        if self._client is None:
            raise RegistryUnreachableError(
                f"TIDINGS_REGISTRY is not set, and a record is of its schema {schema_id}",
                hint="set it; nothing was skipped, the job goes on where it stopped",
            )
        try:
            return _plain(self._client.schema_by_id(schema_id))
        except RegistryError as error:
            self._raise_unless_missing(error)
            return None

    def latest(self, subject: str) -> Any | None:
        """See `SchemaSource`."""
        if self._client is None:
            return None
        try:
            return _plain(self._client.latest(subject)[1])
        except RegistryError as error:
            self._raise_unless_missing(error)
            return None

    def age(self, schema_id: int) -> tuple[int, int]:
        """See `SchemaSource`."""
        return sys.maxsize, schema_id

    def missing(self, schema_id: int) -> str:
        """See `SchemaSource`."""
        if is_json_id(schema_id):
            return "JSON where Avro in the wire format is expected"
        return f"schema {schema_id} is not in the registry"

    def _raise_unless_missing(self, error: RegistryError) -> None:
        """The registry does not have it, or it is not an Avro schema: that is an answer."""
        if error.retry == "never" or getattr(error.__cause__, "error_code", None) in _NOT_THERE:
            return
        raise RegistryUnreachableError(
            f"TIDINGS_REGISTRY: {error}",
            hint=error.hint
            if error.retry == "manual"
            else "check the address and that the registry runs; nothing was skipped, the job goes on where it stopped",
        ) from error


def _plain(parsed: Any) -> Any:
    """Without the marks that fastavro leaves in a parsed schema."""
    return json.loads(
        json.dumps(parsed), object_hook=lambda o: {k: v for k, v in o.items() if not k.startswith("__")}
    )
