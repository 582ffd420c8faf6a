"""Which target a connector has, as a rebuild needs it."""

from collections.abc import Mapping

from tidings_connect.config.plugins import connector_of
from tidings_sinks.errors import RebuildError
from tidings_sinks.graph.connector import Neo4jSink
from tidings_sinks.jdbc.connector import JdbcSinkConnector
from tidings_sinks.read_model import Naming, ReadModel
from tidings_sinks.search.connector import OpenSearchSink
from tidings_sinks.search.settings import read_settings as read_search_settings


def open_read_model(naming: Naming, config: Mapping[str, str]) -> ReadModel:
    """The read model that a connector writes.

    Args:
        config: with secrets in place of references to them.

    Raises:
        RebuildError: it is not a sink whose read model can be rebuilt.
        BusyError, TargetError: the target cannot be asked.
    """
    connector = connector_of(config)
    problems = connector.problems(config) if connector is not None else {}
    if problems:
        raise RebuildError(
            f"{naming.connector}: " + "; ".join(text for texts in problems.values() for text in texts)
        )
    if isinstance(connector, JdbcSinkConnector):
        from tidings_sinks.jdbc.versions import PostgresVersions  # noqa: PLC0415 - a driver only for who has this sink

        return PostgresVersions(naming, connector.read(naming.connector, config), config)
    if isinstance(connector, OpenSearchSink):
        from tidings_sinks.search.versions import SearchVersions  # noqa: PLC0415 - as above

        return SearchVersions(naming, read_search_settings(config))
    if isinstance(connector, Neo4jSink):
        from tidings_sinks.graph.settings import read_settings  # noqa: PLC0415 - as above
        from tidings_sinks.graph.versions import GraphVersions  # noqa: PLC0415 - as above

        return GraphVersions(naming, read_settings(naming.connector, config), config)
    raise RebuildError(
        f"{naming.connector} is a {config.get('connector.class', '')}: read models in PostgreSQL (the JDBC sinks), OpenSearch and Neo4j"
        " are rebuilt"
    )
