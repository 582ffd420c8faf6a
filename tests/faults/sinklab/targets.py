"""The systems that sinks of the lab write to, by name. A new one is a class like these: some 30 lines."""

from sinklab.documents import FerretTarget, GraphTarget, MongoTarget, OpenSearchTarget
from sinklab.files import DirectoryTarget, LinesTarget, S3Target
from sinklab.tables import (
    AnyLog,
    AnyTarget,
    MariaDbLog,
    MariaDbTarget,
    MySqlLog,
    MySqlTarget,
    PostgresLog,
    PostgresRows,
    PostgresTarget,
    SqliteLog,
    SqliteTarget,
    WarehouseLog,
    WarehouseTarget,
)
from sinklab.target import Target
from sinklab.webhooks import WebhookTarget

TARGETS: dict[str, type[Target]] = {
    "postgres": PostgresTarget,
    "postgres-rows": PostgresRows,
    "postgres-log": PostgresLog,
    "mariadb": MariaDbTarget,
    "mariadb-log": MariaDbLog,
    "mysql": MySqlTarget,
    "mysql-log": MySqlLog,
    "sqlalchemy": AnyTarget,
    "sqlalchemy-log": AnyLog,
    "sqlite": SqliteTarget,
    "sqlite-log": SqliteLog,
    "warehouse": WarehouseTarget,
    "warehouse-log": WarehouseLog,
    "opensearch": OpenSearchTarget,
    "mongo": MongoTarget,
    "ferretdb": FerretTarget,
    "neo4j": GraphTarget,
    "objects": DirectoryTarget,
    "s3": S3Target,
    "lines": LinesTarget,
    "webhooks": WebhookTarget,
}
