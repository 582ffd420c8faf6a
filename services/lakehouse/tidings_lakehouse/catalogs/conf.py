"""Spark's settings of the catalog and of the tables' storage, and the jars that they need, by the lakehouse's settings.

A catalog is a database (a JDBC URI) or a server of Iceberg's REST protocol (its address); of another kind (Hive, Glue) it is by
Spark's own settings, which count more than what is said here (https://iceberg.apache.org/docs/latest/spark-configuration/). An object
store's tables are read and written by Iceberg's own file IO of that store, without Hadoop.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.topics import CATALOG
from tidings_service import SettingsError

JDBC: Final = "jdbc"
REST: Final = "rest"
_CATALOG: Final = f"spark.sql.catalog.{CATALOG}"
FILE_IO: Final = f"{_CATALOG}.io-impl"
"""Spark's setting of the file IO, which is set where the tables are not in a directory."""
_S3: Final = "org.apache.iceberg.aws.s3.S3FileIO"
_GCS: Final = "org.apache.iceberg.gcp.gcs.GCSFileIO"
_ADLS: Final = "org.apache.iceberg.azure.adlsv2.ADLSFileIO"
_FILE_IO: Final = {
    "s3": _S3,
    "s3a": _S3,
    "s3n": _S3,
    "gs": _GCS,
    "abfs": _ADLS,
    "abfss": _ADLS,
    "wasb": _ADLS,
    "wasbs": _ADLS,
}
"""By the warehouse's scheme."""
_POSTGRES: Final = "jdbc:postgresql:"


@dataclass(frozen=True, slots=True)
class RestLogin:
    """How the server of a REST catalog is asked.

    Attributes:
        uri: without a slash at its end.
        warehouse: which of the server's catalogs, or empty.
        credential: ``id:secret`` for a token by OAuth 2, or empty.
        token: to be sent as it is, or empty.
        token_uri: where tokens are got, or empty: at the catalog itself.
        scope: that is asked for.
    """

    uri: str
    warehouse: str
    credential: str
    token: str
    token_uri: str
    scope: str


def catalog_kind(settings: WarehouseSettings) -> str:
    """``jdbc``, ``rest``, or what Spark's settings say: ``hive``, ``glue``; empty where they name a class (``catalog-impl``)."""
    conf = settings.spark_conf
    if f"{_CATALOG}.catalog-impl" in conf:
        return ""
    return conf.get(f"{_CATALOG}.type") or (REST if _is_address(settings.lakehouse_catalog) else JDBC)


def catalog_conf(settings: WarehouseSettings) -> dict[str, str]:
    """Spark's settings of the catalog, those that the person has given included."""
    kind, given = catalog_kind(settings), settings.spark_conf
    conf = {
        _CATALOG: "org.apache.iceberg.spark.SparkCatalog",
        f"{_CATALOG}.cache-enabled": "false",
        f"{_CATALOG}.warehouse": settings.warehouse_uri,
    }
    if kind:
        conf[f"{_CATALOG}.type"] = kind
    if kind == JDBC:
        conf |= _of_jdbc(settings)
    elif kind == REST:
        conf |= _of_rest(settings)
    file_io = _FILE_IO.get(urlsplit(settings.lakehouse_warehouse).scheme)
    if file_io is not None:
        conf[FILE_IO] = file_io
    return conf | given


def jar_configurations(settings: WarehouseSettings) -> list[str]:
    """Configurations of ``ivy.xml`` with the jars that Spark's JVM needs."""
    conf = catalog_conf(settings)
    found = ["lakehouse"]
    if conf.get(f"{_CATALOG}.uri", "").startswith(_POSTGRES):
        found.append("catalog-postgresql")
    if conf.get(FILE_IO) == _S3 or conf.get(f"{_CATALOG}.type") == "glue":
        found.append("iceberg-aws")
    return found


def more_jars(settings: WarehouseSettings) -> list[Path]:
    """The jars that the person has named.

    Raises:
        SettingsError: there is none of a name.
    """
    found: list[Path] = []
    for part in filter(None, settings.lakehouse_jars.split(os.pathsep)):
        path = Path(part).expanduser().absolute()
        named = sorted(path.parent.glob(path.name))
        if not named:
            raise SettingsError(
                f"TIDINGS_LAKEHOUSE_JARS: there is no file {part}",
                hint=f"name jars, or patterns such as /opt/jars/*.jar, separated by {os.pathsep}; a pattern is the last part of a path",
            )
        found += named
    return found


def rest_login(settings: WarehouseSettings) -> RestLogin:
    """How the server of a REST catalog is asked, by the settings that Spark has."""
    conf = catalog_conf(settings)

    def setting(name: str) -> str:
        return conf.get(f"{_CATALOG}.{name}", "")

    return RestLogin(
        uri=setting("uri").rstrip("/"),
        warehouse=setting("warehouse"),
        credential=setting("credential"),
        token=setting("token"),
        token_uri=setting("oauth2-server-uri"),
        scope=setting("scope") or "catalog",
    )


def _of_jdbc(settings: WarehouseSettings) -> dict[str, str]:
    conf = {f"{_CATALOG}.uri": settings.catalog_uri, f"{_CATALOG}.jdbc.schema-version": "V1"}
    if settings.lakehouse_catalog_user:
        conf[f"{_CATALOG}.jdbc.user"] = settings.lakehouse_catalog_user
    if settings.catalog_password:
        conf[f"{_CATALOG}.jdbc.password"] = settings.catalog_password
    return conf


def _of_rest(settings: WarehouseSettings) -> dict[str, str]:
    conf = {f"{_CATALOG}.uri": settings.lakehouse_catalog} if settings.lakehouse_catalog else {}
    password = settings.catalog_password
    if settings.lakehouse_catalog_user and password:
        conf[f"{_CATALOG}.credential"] = f"{settings.lakehouse_catalog_user}:{password}"
    elif password:
        conf[f"{_CATALOG}.token"] = password
    return conf


def _is_address(uri: str | None) -> bool:
    return uri is not None and urlsplit(uri).scheme in {"http", "https"}
