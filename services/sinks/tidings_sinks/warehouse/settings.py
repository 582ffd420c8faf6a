"""A warehouse sink's configuration as the engine uses it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from tidings_connect.config.sink_options import sink_group
from tidings_sinks.jdbc import options as jdbc
from tidings_sinks.jdbc.settings import InsertMode, KeyMode, Settings, Words
from tidings_sinks.jdbc.url import Address
from tidings_sinks.warehouse import options as names
from tidings_sinks.warehouse.options import evolves, file_of, is_on, items_of, value_of

_WORDS: Final = Words(
    key_mode=names.KEY_MODE,
    key_fields=names.KEY_FIELDS,
    makes_tables=f"{names.CREATE}=true",
    adds_columns=f"{names.EVOLVE}=true",
    renaming="a transform that renames one",
    leaves_out=jdbc.EXCLUDE,
)


@dataclass(frozen=True, slots=True)
class WarehouseSettings:
    """What a configuration says."""

    rows: Settings
    """What becomes of records: the same as of the JDBC sink."""
    file: Path
    staging: Path
    records: int
    """How many records are merged at once at most."""
    flush_seconds: float
    """How long a record waits at most."""
    flush_bytes: int
    snapshot: Path | None
    snapshot_seconds: float
    memory: str
    threads: int


def read_settings(connector: str, config: Mapping[str, str]) -> WarehouseSettings:
    """What a configuration without problems says."""
    named = file_of(config[names.URL])
    assert named is not None
    staging, snapshot = value_of(config, names.STAGING), value_of(config, names.SNAPSHOT)
    return WarehouseSettings(
        rows=_rows(connector, config, named),
        file=Path(named),
        staging=Path(staging or f"{named}.staging"),
        records=int(value_of(config, names.BATCH)),
        flush_seconds=int(value_of(config, names.FLUSH_INTERVAL)) / 1000,
        flush_bytes=int(value_of(config, names.FLUSH_BYTES)),
        snapshot=Path(snapshot) if snapshot else None,
        snapshot_seconds=int(value_of(config, names.SNAPSHOT_INTERVAL)) / 1000,
        memory=value_of(config, names.MEMORY),
        threads=int(value_of(config, names.THREADS)),
    )


def _rows(connector: str, config: Mapping[str, str], file: str) -> Settings:
    return Settings(
        group=sink_group(connector, config),
        address=Address("duckdb", {"file": file}),
        user=None,
        password="",
        insert_mode=InsertMode(value_of(config, jdbc.INSERT_MODE).lower()),
        deletes=is_on(config, jdbc.DELETE),
        truncates=is_on(config, jdbc.TRUNCATE),
        key_mode=KeyMode(value_of(config, names.KEY_MODE).lower()),
        key_fields=tuple(items_of(config, names.KEY_FIELDS)),
        makes_tables=evolves(config, names.CREATE),
        adds_columns=evolves(config, names.EVOLVE),
        name_format=value_of(config, names.NAME_FORMAT),
        quotes=True,
        batch=int(value_of(config, names.BATCH)),
        zone=ZoneInfo("UTC"),
        includes=frozenset(items_of(config, jdbc.INCLUDE)),
        excludes=frozenset(items_of(config, jdbc.EXCLUDE)),
        reduces=True,
        retries=int(value_of(config, jdbc.RETRIES)),
        retry_seconds=int(value_of(config, jdbc.RETRY_DELAY)) / 1000,
        positions=value_of(config, jdbc.POSITIONS),
        words=_WORDS,
    )
