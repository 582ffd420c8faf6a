"""`tidings doctor --lakehouse`: the catalog's rights on a real PostgreSQL, a bucket as S3's interface answers."""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tidings_cli.main import main

_EMPTY = b'<?xml version="1.0"?><ListBucketResult><Name>lake</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>'
_DENIED = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>'


_BEGUN = b'<?xml version="1.0"?><InitiateMultipartUploadResult><UploadId>u/1+=</UploadId></InitiateMultipartUploadResult>'


class _Bucket(BaseHTTPRequestHandler):
    """Lists an empty bucket for the keys `good` and `reader`, takes uploads of `good`, and refuses the rest."""

    asked: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self._answer(("good", "reader"), b"")

    def do_GET(self) -> None:
        self._answer(("good", "reader"), _EMPTY)

    def do_POST(self) -> None:
        self._answer(("good",), _BEGUN)

    def do_DELETE(self) -> None:
        self._answer(("good",), b"")

    def _answer(self, keys: tuple[str, ...], body: bytes) -> None:
        if self.command not in {"GET", "HEAD"}:
            self.asked.append(f"{self.command} {self.path}")
        allowed = any(f"Credential={key}/" in self.headers.get("Authorization", "") for key in keys)
        self.send_response(200 if allowed else 403)
        body = body if allowed else _DENIED
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def bucket() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Bucket) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def findings(capsys: pytest.CaptureFixture[str], warehouse: str) -> dict[str, str]:
    main(["doctor", "--lakehouse", warehouse, "--json"])
    said = capsys.readouterr()
    return {one["code"]: one["what"] + one["mend"] for one in json.loads(said.out or said.err)["findings"]}


@pytest.fixture
def catalog(pg_database: str, unique_name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A catalog's database with a user that may do nothing; gives its role."""
    for name in ("TIDINGS_KAFKA", "TIDINGS_REGISTRY", "TIDINGS_SOURCE"):
        monkeypatch.delenv(name, raising=False)
    place = conninfo_to_dict(pg_database)
    uri = f"jdbc:postgresql://{place['host']}:{place['port']}/{place['dbname']}"
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_CATALOG", uri)
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_CATALOG_USER", unique_name)
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_CATALOG_PASSWORD", "sesame")
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {unique_name} LOGIN PASSWORD 'sesame'".encode())
        connection.execute(b"REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        yield unique_name
        connection.execute(f"DROP OWNED BY {unique_name}; DROP ROLE {unique_name}".encode())


def test_the_catalogs_rights(
    pg_database: str,
    catalog: str,
    tmp_path: object,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = str(tmp_path)
    said = findings(capsys, lake)
    assert set(said) == {"catalog-rights"}
    assert "GRANT CREATE ON SCHEMA public TO" in said["catalog-rights"]
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute(f"GRANT CREATE ON SCHEMA public TO {catalog}".encode())
        assert findings(capsys, lake) == {}
        connection.execute(b"CREATE TABLE iceberg_tables (catalog_name text)")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE ON iceberg_tables TO {catalog}".encode())
        said = findings(capsys, lake)
        assert set(said) == {"catalog-rights"}
        assert "lacks DELETE ON iceberg_tables" in said["catalog-rights"]
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_CATALOG_PASSWORD", "open")
    said = findings(capsys, lake)
    assert set(said) == {"catalog"}
    assert "sesame" not in str(said)


def test_a_bucket(
    catalog: str,
    pg_database: str,
    bucket: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute(f"GRANT CREATE ON SCHEMA public TO {catalog}".encode())
    own = "spark.sql.catalog.lake.s3"

    def with_key(key: str, endpoint: str) -> dict[str, str]:
        conf = {
            "endpoint": endpoint,
            "access-key-id": key,
            "secret-access-key": "sesame",
            "path-style-access": "true",
        }
        monkeypatch.setenv(
            "TIDINGS_LAKEHOUSE_SPARK_CONF", ";".join(f"{own}.{name}={text}" for name, text in conf.items())
        )
        return findings(capsys, "s3://lake/warehouse")

    _Bucket.asked.clear()
    assert with_key("good", bucket) == {}
    # An upload is begun and aborted: no object was ever there.
    begun, aborted = _Bucket.asked
    assert re.fullmatch(r"POST /lake/warehouse/tidings-doctor-[0-9a-f-]{36}\?uploads", begun)
    assert aborted == begun.replace("POST", "DELETE").replace("?uploads", "?uploadId=u%2F1%2B%3D")
    reader = with_key("reader", bucket)
    assert set(reader) == {"bucket-rights"}
    assert "may not put objects there: HTTP 403 AccessDenied" in reader["bucket-rights"]
    refused = with_key("bad", bucket)
    assert set(refused) == {"bucket"}
    assert "sesame" not in str(refused)
    assert set(with_key("good", "http://127.0.0.1:1")) == {"bucket"}


def test_a_bucket_of_a_sink(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TIDINGS_KAFKA", "TIDINGS_REGISTRY", "TIDINGS_SOURCE", "TIDINGS_LAKEHOUSE_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "sink.json"

    def with_key(key: str) -> dict[str, str]:
        config = {
            "connector.class": "io.confluent.connect.s3.S3SinkConnector",
            "topics": "t", "format.class": "io.confluent.connect.s3.format.json.JsonFormat", "flush.size": "10",
            "s3.bucket.name": "lake", "s3.region": "us-west-2", "store.url": bucket,
            "aws.access.key.id": key, "aws.secret.access.key": "sesame",
        }  # fmt: skip
        file.write_text(json.dumps({"name": "objects", "config": config}))
        main(["doctor", "--connector", str(file), "--json"])
        said = capsys.readouterr().out
        assert "sesame" not in said
        return {one["code"]: one["what"] + one["mend"] for one in json.loads(said)["findings"]}

    _Bucket.asked.clear()
    assert with_key("good") == {}
    assert [each.split()[0] for each in _Bucket.asked] == ["POST", "DELETE"]
    reader = with_key("reader")
    assert "may not put objects there: HTTP 403 AccessDenied" in reader["target"]
    assert "s3:PutObject" in reader["target"]
    assert set(with_key("bad")) == {"target"}
