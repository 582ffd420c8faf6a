"""Schemas of JSON topics that bring none (``schemas.enable=false``), given as files: ``TIDINGS_LAKEHOUSE_SCHEMAS``.

A file is named after its subject, as a registry's would be: ``shop.public.orders-value.json``, ``shop.public.orders-key.json``. It holds
what JsonConverter writes as ``schema`` when ``schemas.enable`` is true: of one record of the same connector, exact to its types.
"""

from __future__ import annotations

import json
from pathlib import Path

from tidings_lakehouse.decoding.change_decoder import check_envelope, check_key
from tidings_lakehouse.formats.avro_nodes import UnsupportedSchemaError, parse_schema
from tidings_lakehouse.formats.connect_schemas import avro_of
from tidings_lakehouse.topics import schema_change_topic, transaction_topic
from tidings_service import SettingsError

_KEY, _VALUE = "-key", "-value"
_NAME = "TIDINGS_LAKEHOUSE_SCHEMAS"
_HINT = (
    "write the part `schema` of a record of that topic, as JsonConverter writes it with schemas.enable=true"
)
_MARKER = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"type": "string", "optional": False, "field": "status"},
            {"type": "string", "optional": False, "field": "id"},
            {"type": "int64", "optional": True, "field": "event_count"},
            {
                "type": "array",
                "items": {
                    "type": "struct",
                    "fields": [
                        {"type": "string", "optional": False, "field": "data_collection"},
                        {"type": "int64", "optional": False, "field": "event_count"},
                    ],
                    "optional": False,
                    "name": "event.collection",
                },
                "optional": True,
                "field": "data_collections",
            },
            {"type": "int64", "optional": False, "field": "ts_ms"},
        ],
        "optional": False,
        "name": "io.debezium.connector.common.TransactionMetadataValue",
    }
)
"""Of the transaction topic, which is the same for every source."""


def given_schemas(directory: Path | None, source: str) -> dict[str, str]:
    """The schemas' text by subject; with that of the source's transaction topic, unless there is no directory.

    Raises:
        SettingsError: the directory or a file cannot be read, or a file is not such a schema.
    """
    if directory is None:
        return {}
    if not directory.is_dir():
        raise SettingsError(f"{_NAME}: {directory} is not a directory", hint="name the schemas' directory")
    found = {f"{transaction_topic(source)}{_VALUE}": _MARKER}
    for file in sorted(directory.glob("*.json")):
        found[file.stem] = _checked(file, {transaction_topic(source), schema_change_topic(source)})
    return found


def _checked(file: Path, own: set[str]) -> str:
    if not file.stem.endswith((_KEY, _VALUE)):
        raise SettingsError(
            f"{_NAME}: {file} is not named <topic>{_KEY}.json or <topic>{_VALUE}.json", hint=_HINT
        )
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{_NAME}: {file} cannot be read: {error}", hint=_HINT) from error
    try:
        node = parse_schema(avro_of(json.loads(text)))
    except (UnsupportedSchemaError, RecursionError, ValueError) as error:
        raise SettingsError(f"{_NAME}: {file} is not a schema: it has {error}", hint=_HINT) from error
    if file.stem.endswith(_KEY):
        why = check_key(node)
    else:
        why = None if file.stem.removesuffix(_VALUE) in own else check_envelope(node)
    if why is not None:
        raise SettingsError(f"{_NAME}: the schema in {file} {why}", hint=_HINT)
    return text
