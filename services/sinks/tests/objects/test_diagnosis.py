"""`tidings doctor` on sinks of objects: a bucket that is not there, a store that is away, directories; services/cli tests a key's rights."""

from pathlib import Path

from diagnosing import Diagnose

from tidings_stack.s3 import S3Server


def test_what_is_wrong_with_a_bucket(s3: S3Server, diagnose: Diagnose) -> None:
    config = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "flush.size": "10",
        "s3.bucket.name": s3.bucket,
        "s3.region": "us-west-2",
        "store.url": s3.url,
        "aws.access.key.id": "key",
        "aws.secret.access.key": "secret-word",
    }
    assert diagnose(config) == {}
    assert "there is no bucket of-nobody" in diagnose(config | {"s3.bucket.name": "of-nobody"})["target"]
    assert set(diagnose(config | {"store.url": "http://127.0.0.1:1"})) == {"unreachable"}


def test_what_is_wrong_with_a_directory(tmp_path: Path, diagnose: Diagnose) -> None:
    (tmp_path / "file").touch()
    config = {
        "connector.class": "tidings.ObjectStorageSinkConnector",
        "format.class": "JsonFormat",
        "flush.size": "10",
        "tidings.storage.url": f"file://{tmp_path}/new/one",
    }
    assert diagnose(config) == {}
    assert set(diagnose(config | {"tidings.storage.url": f"file://{tmp_path}/file/one"})) == {"no-directory"}
