"""MySQL's connector with each `database.ssl.mode`, and with certificates of its own: the snapshot and the binary log."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tls_case import DATABASE, make_table, read_both, server_settings, write_certificates

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.connector import MySqlConnector
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.flavours.mysql import MYSQL
from tidings_capture.mysql.settings.config import read_config
from tidings_jvm import SilentProgress
from tidings_stack.errors import PackagesUnavailableError
from tidings_stack.mysql import MySqlServer
from tidings_stack.stack import Stack


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``ca``, of a server on the loopback interface ``cert`` and ``key``, and ``own`` of the connector; ``other`` is another authority's."""
    directory = tmp_path_factory.mktemp("tls")
    write_certificates(directory, "mysql")
    return directory


@pytest.fixture(scope="module")
def server(files: Path) -> Iterator[MySqlServer]:
    own = server_settings(files)
    with Stack(members=(), progress=SilentProgress()) as stack:
        try:
            yield stack.add(lambda place: MySqlServer(place, settings=own))
        except PackagesUnavailableError as error:
            pytest.skip(f"there is no MySQL: {error}")


def options(server: MySqlServer, mode: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": MySqlConnector.class_name,
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "admin",
        "database.password": server.password,
        "database.ssl.mode": mode,
        "database.include.list": DATABASE,
        "topic.prefix": "p",
        **more,
    }


@pytest.mark.parametrize("mode", ["disabled", "preferred", "required", "verify_ca", "verify_identity"])
def test_the_snapshot_and_the_log_are_read(
    server: MySqlServer, files: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The user's login is `caching_sha2_password`, without TLS and with it."""
    monkeypatch.setenv("SSL_CERT_FILE", str(files / "other"))
    session = Session(read_config(options(server, "required"), MYSQL).endpoint)
    user = f"u{mode}"
    make_table(session)
    needs = {"disabled": "", "verify_ca": " REQUIRE X509"}.get(mode, " REQUIRE SSL")  # of each connection
    session.rows(f"CREATE USER {user} IDENTIFIED WITH caching_sha2_password BY 'pw'{needs}")
    session.rows(f"GRANT ALL ON *.* TO {user}")
    config = options(server, mode, **{"database.user": user, "database.password": "pw"})
    if mode.startswith("verify"):
        config |= {
            "database.ssl.truststore": str(files / "ca"),
            "database.ssl.keystore": str(files / "own.pem"),
        }
    read_both(config, session)
    session.close()


@pytest.mark.parametrize(
    ("mode", "host", "authority"),
    [("verify_ca", "127.0.0.1", "other"), ("verify_identity", "localhost", "ca")],
)
def test_what_cannot_be_trusted_is_refused(
    server: MySqlServer, files: Path, mode: str, host: str, authority: str
) -> None:
    more = {"database.hostname": host, "database.ssl.truststore": str(files / authority)}
    with pytest.raises(MariaDbError, match="certificate"):
        Session(read_config(options(server, mode, **more), MYSQL).endpoint)
