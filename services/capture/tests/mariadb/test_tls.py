"""MariaDB's connector over TLS (``database.ssl.mode``): the snapshot, the binary log, and what is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from tls_case import DATABASE, make_table, read_both, server_settings, write_certificates

from tidings_capture.mysql.binlog.gtid import GtidPosition
from tidings_capture.mysql.client import BinlogStream, Endpoint, Session
from tidings_capture.mysql.connector import MariaDbConnector
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.flavours.mariadb import MARIADB
from tidings_capture.mysql.settings.config import read_config
from tidings_jvm import PlainProgress
from tidings_stack.mariadb import MariaDbServer, is_published
from tidings_stack.stack import Stack


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of `write_certificates`, and ``own.p12``."""
    directory = tmp_path_factory.mktemp("tls")
    authority, own = write_certificates(directory, "mariadb")
    store = pkcs12.serialize_key_and_certificates(
        b"own",
        serialization.load_pem_private_key(own.key.encode(), None),  # type: ignore[arg-type]
        x509.load_pem_x509_certificate(own.certificate.encode()),
        [x509.load_pem_x509_certificate(authority.certificate.encode())],
        serialization.BestAvailableEncryption(b"secret"),
    )
    (directory / "own.p12").write_bytes(store)
    return directory


@pytest.fixture(scope="module")
def server(files: Path) -> Iterator[MariaDbServer]:
    """A server that takes connections over TLS only."""
    if not is_published():
        pytest.skip("MariaDB's binaries are published for Linux on x86-64 only")
    own = server_settings(files)
    with Stack(members=(), progress=PlainProgress(lambda _: None)) as stack:
        yield stack.add(
            lambda place: MariaDbServer(
                place, settings={"ssl": "ON", "require_secure_transport": "ON", **own}
            )
        )


def endpoint(server: MariaDbServer, mode: str, host: str = "127.0.0.1") -> Endpoint:
    return Endpoint(host, server.port, "admin", server.password, mode)


@pytest.mark.parametrize("mode", ["trust", "verify-full"])
def test_the_snapshot_and_the_log_are_read_over_tls(
    server: MariaDbServer, files: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files / ("ca" if mode == "verify-full" else "other")))
    session = Session(endpoint(server, mode))
    make_table(session)
    config = {
        "connector.class": MariaDbConnector.class_name,
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "admin",
        "database.password": server.password,
        "database.ssl.mode": mode,
        "database.include.list": DATABASE,
        "topic.prefix": "p",
    }
    read_both(config, session)
    session.close()


@pytest.mark.parametrize(
    ("mode", "host", "authority", "words"),
    [
        ("disable", "127.0.0.1", "ca", "insecure transport"),
        ("verify-ca", "127.0.0.1", "other", "certificate"),
        ("verify-full", "localhost", "ca", "certificate"),
    ],
)
def test_what_cannot_be_trusted_is_refused(
    server: MariaDbServer,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    host: str,
    authority: str,
    words: str,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files / authority))
    with pytest.raises(MariaDbError, match=words):
        Session(endpoint(server, mode, host))


def test_the_name_is_not_compared_where_only_the_authority_is(
    server: MariaDbServer, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files / "ca"))
    session = Session(endpoint(server, "verify-ca", "localhost"))
    assert session.rows("SHOW STATUS LIKE 'Ssl_version'")[0][1].startswith("TLSv1.")
    session.close()


@pytest.mark.parametrize("form", ["pem", "p12"])
def test_a_certificate_of_its_own_is_shown_where_the_server_asks_for_one(
    server: MariaDbServer, files: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files / "other"))
    session = Session(endpoint(server, "trust"))
    session.rows("CREATE OR REPLACE USER shown@'%' IDENTIFIED BY 'p' REQUIRE X509")
    session.rows("GRANT ALL ON *.* TO shown@'%'")
    config = {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "shown",
        "database.password": "p",
        "database.ssl.mode": "verify-full",
        "database.ssl.truststore": str(files / "ca"),
        "topic.prefix": "p",
    }
    with pytest.raises(MariaDbError, match=r"\(1045\)"):
        Session(read_config(config).endpoint)
    config["database.ssl.keystore"] = str(files / f"own.{form}")
    if form == "p12":
        config["database.ssl.keystore.password"] = "secret"
    read = read_config(config)
    assert "secret" not in repr(read)
    shown = Session(read.endpoint)
    assert shown.rows("SELECT CURRENT_USER()") == [("shown@%",)]
    ((gtid,),) = shown.rows("SELECT @@gtid_binlog_pos")
    request = MARIADB.request(GtidPosition.read(gtid), 90_003, annotations=False, heartbeat_seconds=1)
    BinlogStream(read.endpoint, request).close()
    shown.close()
    session.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keystore": "nothing.p12"}, "database.ssl.keystore"),
        ({"truststore": "key"}, "database.ssl.truststore holds no certificate"),
        ({"keystore": "own.p12", "keystore.password": "wrong"}, "database.ssl.keystore"),
    ],
)
def test_a_store_that_cannot_be_read_is_named(
    server: MariaDbServer, files: Path, options: dict[str, str], words: str
) -> None:
    config = {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "admin",
        "database.ssl.mode": "trust",
        "topic.prefix": "p",
    }
    for name, value in options.items():
        config[f"database.ssl.{name}"] = value if name.endswith("password") else str(files / value)
    with pytest.raises(MariaDbError, match=words) as raised:
        Session(read_config(config).endpoint)
    assert "wrong" not in str(raised.value)
