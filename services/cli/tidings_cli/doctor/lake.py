"""The lake: its directory or bucket, and the catalog's database, with the rights that the job needs there."""

import os
from collections.abc import Iterator
from typing import Final

from tidings_cli.doctor.findings import Finding, error
from tidings_envelope.base_errors import SettingsError
from tidings_lakehouse.catalogs.catalog import missing_rights
from tidings_lakehouse.errors import LakehouseError
from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.store_rights import check_writable
from tidings_service.s3_rights import StoreError

_PLACE: Final = "lake"


def look_at_lake(settings: WarehouseSettings) -> Iterator[Finding]:
    """What is wrong with the warehouse and its catalog. No object is written: an upload to a bucket is begun and aborted."""
    yield from _store(settings) if settings.warehouse_directory is None else _directory(settings)
    yield from _catalog(settings)


def _directory(settings: WarehouseSettings) -> Iterator[Finding]:
    directory = settings.warehouse_directory
    assert directory is not None
    there = next(one for one in (directory, *directory.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield error(
            _PLACE, "not-writable", f"{there} is not a directory that this user may write to",
            "no table can be written", f"chown it to {os.getuid()}, or set TIDINGS_LAKEHOUSE_WAREHOUSE",
        )  # fmt: skip


def _store(settings: WarehouseSettings) -> Iterator[Finding]:
    from tidings_lakehouse.reading.duck import list_store  # noqa: PLC0415 - DuckDB, for object stores only

    try:
        list_store(settings)
        check_writable(settings)
    except StoreError as problem:
        yield error(
            _PLACE, "bucket-rights", str(problem), "the lakehouse job ends at its first commit",
            "give the key s3:PutObject, s3:AbortMultipartUpload and s3:DeleteObject on the objects below the warehouse",
        )  # fmt: skip
    except LakehouseError as problem:
        yield error(
            _PLACE, "bucket", str(problem), "no table can be written or read",
            "give the key the rights to list, get, put and delete objects below it, and see that"
            " spark.sql.catalog.lake.s3.* in TIDINGS_LAKEHOUSE_SPARK_CONF name endpoint, region and key",
        )  # fmt: skip


def _catalog(settings: WarehouseSettings) -> Iterator[Finding]:
    try:
        missing = missing_rights(settings)
    except (LakehouseError, SettingsError) as problem:
        yield error(
            _PLACE, "catalog", str(problem), "no table is found",
            problem.hint or "TIDINGS_LAKEHOUSE_CATALOG is its JDBC URI",
        )  # fmt: skip
        return
    if missing:
        yield error(
            _PLACE, "catalog-rights", f"the catalog's user {settings.lakehouse_catalog_user or ''} lacks {', '.join(missing)}",
            "the lakehouse job ends at its first commit", "; ".join(f"GRANT {one} TO ..." for one in missing),
        )  # fmt: skip
