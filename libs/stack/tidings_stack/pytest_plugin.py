"""pytest fixtures on the stack. Loaded in every test run of the workspace, so it imports nothing heavy by itself.

Session fixtures: `stack` (the whole object), `pg_url`, `kafka_bootstrap`, `registry_url`, `connect_url`, `pg_server`,
`connect_server`, `secured_servers`, `mariadb`, `mysql`, `s3`, `opensearch`, `elasticsearch`, `neo4j`, `mongo`, `ferretdb`.
Function fixtures: `pg_database`, `unique_name`. The members that the collected tests need are started together when the
first test asks for one; under pytest-xdist, where a process runs some of the tests only, each when a test asks for it. A test that uses any of them carries the marker `stack` by itself.

`TIDINGS_STACK=containers` starts containers instead of processes; `TIDINGS_PG`, `TIDINGS_KAFKA`, `TIDINGS_REGISTRY` and
`TIDINGS_CONNECT` name servers that exist already.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidings_stack.mariadb import MariaDbServer
    from tidings_stack.mongo import FerretServer, MongoServer
    from tidings_stack.mysql import MySqlServer
    from tidings_stack.neo4j import Neo4jServer
    from tidings_stack.opensearch import ElasticsearchServer, OpenSearchServer
    from tidings_stack.provision.protocols import OwnedServer
    from tidings_stack.provision.provider import Provider
    from tidings_stack.s3 import S3Server
    from tidings_stack.secured.servers import SecuredServers
    from tidings_stack.stack import Stack

MEMBER_OF_FIXTURE = {
    "pg_url": "pg",
    "pg_database": "pg",
    "ferretdb": "pg",
    "kafka_bootstrap": "kafka",
    "registry_url": "registry",
    "connect_url": "connect",
    "connect_server": "kafka",
}
_CALL = pytest.StashKey[pytest.TestReport]()
_KAFKA = pytest.StashKey[str]()
"""Bootstrap servers of the broker that was started for the session, as soon as a test has asked for them."""
_NAMES = pytest.StashKey[list[str]]()
"""What `unique_name` gave to the tests of this file."""
FIXTURES = {
    *MEMBER_OF_FIXTURE,
    "pg_server",
    "connect_server",
    "secured_servers",
    "mariadb",
    "mysql",
    "neo4j",
    "opensearch",
    "elasticsearch",
    "mongo",
    "stack",
}


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, for projects that do not."""
    config.addinivalue_line("markers", "stack: needs the embedded stack (a real PostgreSQL, Kafka, registry)")
    config.stash[_NAMES] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that needs a server."""
    for item in items:
        if FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("stack")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what became of a test, for `has_failed`."""
    report = yield
    if call.when == "call":
        item.stash[_CALL] = report
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Delete the topics of a file's tests behind it, on a broker of this session: each costs it time for as long as it is there."""
    result = yield
    names = item.config.stash[_NAMES]
    if nextitem is not None and names and nextitem.path != item.path:
        if _KAFKA in item.config.stash:
            from tidings_stack.kafka import delete_topics  # noqa: PLC0415 (loads confluent_kafka)

            delete_topics(item.config.stash[_KAFKA], names)
        names.clear()
    return result


def has_failed(item: pytest.Item) -> bool:
    """For the end of a fixture: whether its test has failed, or did not get so far as to run."""
    report = item.stash.get(_CALL, None)
    return report is None or report.failed


@pytest.fixture(scope="session")
def tidings_servers(request: pytest.FixtureRequest) -> Iterator[Provider]:
    """Where servers come from: processes, containers or the environment."""
    from tidings_stack.provision.provider import open_provider  # noqa: PLC0415 (loads psycopg and confluent_kafka)

    needed = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    together = sorted({member for fixture, member in MEMBER_OF_FIXTURE.items() if fixture in needed})
    if "PYTEST_XDIST_WORKER" in os.environ:
        together = []
    with open_provider(os.environ, together=together, say=_speaker(request)) as provider:
        yield provider


@pytest.fixture(scope="session")
def stack(tidings_servers: Provider) -> Provider:
    """The servers with `.pg`, `.kafka`, `.registry`, `.connect`, each started when first used."""
    return tidings_servers


@pytest.fixture(scope="session")
def pg_url(tidings_servers: Provider) -> str:
    """Superuser's URL of the maintenance database."""
    return tidings_servers.pg.url


@pytest.fixture(scope="session")
def kafka_bootstrap(request: pytest.FixtureRequest, tidings_servers: Provider) -> str:
    """Kafka's bootstrap servers, host:port."""
    bootstrap = tidings_servers.kafka.url
    if not os.environ.get("TIDINGS_KAFKA"):
        request.config.stash[_KAFKA] = bootstrap
    return bootstrap


@pytest.fixture(scope="session")
def registry_url(tidings_servers: Provider) -> str:
    """Base URL of the registry's Confluent API."""
    return tidings_servers.registry.url


@pytest.fixture(scope="session")
def connect_url(tidings_servers: Provider) -> str:
    """URL of Kafka Connect's REST interface, with the real Debezium connector."""
    return tidings_servers.connect.url


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> str:
    """A short unique lower-case identifier for prefixes, slots, groups and topics; topics with it go behind the test's file."""
    name = f"t{secrets.token_hex(4)}"
    request.config.stash[_NAMES].append(name)
    return name


@pytest.fixture
def pg_database(pg_url: str) -> Iterator[str]:
    """URL of a fresh database; dropped at the end with its replication slots."""
    from tidings_stack.postgres import create_database, drop_database  # noqa: PLC0415

    name = f"test_{secrets.token_hex(5)}"
    yield create_database(pg_url, name)
    drop_database(pg_url, name)


@pytest.fixture(scope="session")
def pg_server(tidings_servers: Provider) -> Callable[..., OwnedServer]:
    """Start one more PostgreSQL: `pg_server("18", wal_level="replica")`; it ends with the session, or by `.close()`.

    `binaries` and `extensions` are those of `PostgresServer`.
    """

    def start(
        version: str = "16", *, binaries: Path | None = None, extensions: Sequence[Path] = (), **settings: str
    ) -> OwnedServer:
        return tidings_servers.add_pg(version, settings, binaries=binaries, extensions=extensions)

    return start


@pytest.fixture(scope="session")
def connect_server(tidings_servers: Provider) -> Callable[..., OwnedServer]:
    """Start one more Kafka Connect: `connect_server({"group.id": "g"})`; it ends with the session, or by `.close()`."""
    return tidings_servers.add_connect


@pytest.fixture(scope="session")
def secured_servers(request: pytest.FixtureRequest) -> Iterator[SecuredServers]:
    """A broker and a PostgreSQL that ask for TLS, and the authority of their certificates; processes in any case."""
    from tidings_stack.secured.servers import SecuredServers  # noqa: PLC0415

    with _alone(request) as stack:
        yield SecuredServers.start(stack)


@pytest.fixture(scope="session")
def mariadb(request: pytest.FixtureRequest) -> Iterator[MariaDbServer]:
    """A MariaDB with a binary log; a process in any case. Tests of it are skipped where it is not published."""
    from tidings_stack.mariadb import MariaDbServer, is_published  # noqa: PLC0415

    if not is_published():
        pytest.skip("MariaDB's binaries are published for Linux on x86-64 only")
    with _alone(request) as stack:
        yield stack.add(MariaDbServer)


@pytest.fixture(scope="session")
def mysql(request: pytest.FixtureRequest) -> Iterator[MySqlServer]:
    """A MySQL with a binary log; a process in any case. Tests of it are skipped where its packages cannot be had."""
    from tidings_stack.errors import PackagesUnavailableError  # noqa: PLC0415
    from tidings_stack.mysql import MySqlServer  # noqa: PLC0415

    with _alone(request) as stack:
        try:
            yield stack.add(MySqlServer)
        except PackagesUnavailableError as error:
            pytest.skip(f"there is no MySQL: {error}" + (f" ({error.hint})" if error.hint else ""))


@pytest.fixture(scope="session")
def s3(request: pytest.FixtureRequest) -> Iterator[S3Server]:
    """A server of S3's protocol with an empty bucket; a process in any case."""
    from tidings_stack.s3 import S3Server  # noqa: PLC0415

    with _alone(request) as stack:
        yield stack.add(S3Server)


@pytest.fixture(scope="session")
def opensearch(request: pytest.FixtureRequest) -> Iterator[OpenSearchServer]:
    """An OpenSearch without indexes; a process in any case."""
    from tidings_stack.opensearch import OpenSearchServer  # noqa: PLC0415

    with _alone(request) as stack:
        yield stack.add(OpenSearchServer)


@pytest.fixture(scope="session")
def elasticsearch(request: pytest.FixtureRequest) -> Iterator[ElasticsearchServer]:
    """An Elasticsearch without indexes; a process in any case."""
    from tidings_stack.opensearch import ElasticsearchServer  # noqa: PLC0415

    with _alone(request) as stack:
        yield stack.add(ElasticsearchServer)


@pytest.fixture(scope="session")
def neo4j(request: pytest.FixtureRequest) -> Iterator[Neo4jServer]:
    """An empty Neo4j; a process in any case."""
    from tidings_stack.neo4j import Neo4jServer  # noqa: PLC0415

    with _alone(request) as stack:
        yield stack.add(Neo4jServer)


@pytest.fixture(scope="session")
def mongo(request: pytest.FixtureRequest) -> Iterator[MongoServer]:
    """A small server of MongoDB's protocol, in memory; a process in any case."""
    from tidings_stack.mongo import MongoServer  # noqa: PLC0415

    with _alone(request) as stack:
        yield stack.add(MongoServer)


@pytest.fixture(scope="session")
def ferretdb(request: pytest.FixtureRequest, pg_url: str) -> Iterator[FerretServer]:
    """A FerretDB that keeps its data in a database of the stack's PostgreSQL; skips where there is none."""
    from tidings_stack.mongo import FerretServer, ferretdb_program  # noqa: PLC0415
    from tidings_stack.postgres import create_database, drop_database  # noqa: PLC0415

    if ferretdb_program() is None:
        pytest.skip("there is no FerretDB: run `scripts/tools.sh ferretdb` (needs Go)")
    name = f"ferretdb_{secrets.token_hex(4)}"
    database = create_database(pg_url, name)
    with _alone(request) as stack:
        yield stack.add(lambda place: FerretServer(place, database=database))
    drop_database(pg_url, name)


def _alone(request: pytest.FixtureRequest) -> Stack:
    """A stack for servers that the ones of `tidings_servers` have nothing to do with."""
    from tidings_jvm import PlainProgress  # noqa: PLC0415
    from tidings_stack.stack import Stack  # noqa: PLC0415

    return Stack(members=(), progress=PlainProgress(_speaker(request)))


def _speaker(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """A way to show progress although pytest captures output: a cold cache downloads for a minute or two."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def say(text: str) -> None:
        if reporter is None or capture is None:
            return
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(text)

    return say
