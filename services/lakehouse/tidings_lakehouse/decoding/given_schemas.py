"""Schemas of JSON topics that bring none (``schemas.enable=false``), given as files: ``TIDINGS_LAKEHOUSE_SCHEMAS``.

A file is named after its subject, as a registry's would be: ``shop.public.orders-value.json``, ``shop.public.orders-key.json``; ``*`` in
it stands for any text. It holds what JsonConverter writes as ``schema`` when ``schemas.enable`` is true: of one record of the same
connector, exact to its types. A file ``.avsc`` holds the schema that an AvroConverter of the same connector registers.
"""

from __future__ import annotations

import json
from pathlib import Path

from tidings_lakehouse.decoding.change_decoder import check_envelope, check_key
from tidings_lakehouse.formats.avro_nodes import UnsupportedSchemaError, parse_schema
from tidings_lakehouse.formats.connect_of_avro import connect_of
from tidings_lakehouse.formats.connect_schemas import avro_of
from tidings_lakehouse.settings import LakehouseSettings
from tidings_lakehouse.topics import schema_change_topic, transaction_topic
from tidings_service import SettingsError

_KEY, _VALUE = "-key", "-value"
_CONNECT, _AVRO = ".json", ".avsc"
_NAME = "TIDINGS_LAKEHOUSE_SCHEMAS"
_HINT = (
    "write the part `schema` of a record of that topic, as JsonConverter writes it with schemas.enable=true, or the Avro schema"
    " that AvroConverter registers"
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


def given_schemas(settings: LakehouseSettings) -> dict[str, str]:
    """The schemas' text by subject, in which ``*`` stands for any text; with that of the source's transaction topic, unless nothing
    is said of JSON without schemas.

    Raises:
        SettingsError: the directory or a file cannot be read, or a file is not such a schema.
    """
    directory, source = settings.lakehouse_schemas, settings.source
    if directory is None and settings.lakehouse_text is None:
        return {}
    found = {f"{transaction_topic(source)}{_VALUE}": _MARKER}
    if directory is None:
        return found
    if not directory.is_dir():
        raise SettingsError(f"{_NAME}: {directory} is not a directory", hint="name the schemas' directory")
    files: dict[str, Path] = {}
    for file in sorted([*directory.glob(f"*{_CONNECT}"), *directory.glob(f"*{_AVRO}")]):
        if (other := files.setdefault(file.stem, file)) != file:
            raise SettingsError(f"{_NAME}: {other} and {file} are of the same subject", hint="remove one")
        found[file.stem] = _checked(file, {transaction_topic(source), schema_change_topic(source)})
    return found


def _checked(file: Path, own: set[str]) -> str:
    if not file.stem.endswith((_KEY, _VALUE)):
        raise SettingsError(
            f"{_NAME}: {file} is not named <topic>{_KEY} or <topic>{_VALUE}, with {_CONNECT} or {_AVRO} behind it",
            hint=_HINT,
        )
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{_NAME}: {file} cannot be read: {error}", hint=_HINT) from error
    try:
        schema = json.loads(text)
        if file.suffix == _AVRO:
            parse_schema(schema)  # says what is wrong with it
            text = json.dumps(schema := connect_of(schema))
        node = parse_schema(avro_of(schema))
    except (UnsupportedSchemaError, RecursionError, ValueError, LookupError, TypeError) as error:
        what = error if isinstance(error, UnsupportedSchemaError | ValueError) else "parts that no schema has"
        raise SettingsError(f"{_NAME}: {file} is not a schema: it has {what}", hint=_HINT) from error
    if file.stem.endswith(_KEY):
        why = check_key(node)
    else:
        why = None if file.stem.removesuffix(_VALUE) in own else check_envelope(node)
    if why is not None:
        raise SettingsError(f"{_NAME}: the schema in {file} {why}", hint=_HINT)
    return text
