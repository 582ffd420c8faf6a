"""Which class speaks to a database."""

from tidings_sinks.jdbc.database import Database
from tidings_sinks.jdbc.settings import Settings


def open_database(settings: Settings) -> Database:
    """A connection.

    Raises:
        LostError: it cannot be reached.
        TargetError: it refuses the login, or is not there.
    """
    if settings.address.dialect == "sqlite":
        from tidings_sinks.jdbc.databases.sqlite import SqliteDatabase  # noqa: PLC0415 - only for who has one

        return SqliteDatabase(settings)
    if settings.address.dialect == "mariadb":
        from tidings_sinks.jdbc.databases.mariadb import MariaDbDatabase  # noqa: PLC0415 - only for who has one

        return MariaDbDatabase(settings)
    if settings.address.dialect == "sqlalchemy":
        from tidings_sinks.jdbc.databases.any_database import AnyDatabase  # noqa: PLC0415 - only for who has one

        return AnyDatabase(settings)
    from tidings_sinks.jdbc.databases.postgres import PostgresDatabase  # noqa: PLC0415 - only for who has one

    return PostgresDatabase(settings)
