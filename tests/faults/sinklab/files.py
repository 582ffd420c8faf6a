"""Files: objects in a directory and in S3, and lines of one file. What is in them stays; a record that is there twice is seen."""

import contextlib
import json
import re
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyarrow import fs

from sinklab.target import PLACED, TAIL, Claim, FileTarget, RecordPlace, Target
from tidings_connect.testing.sink_contract import SINK_POINTS
from tidings_stack.s3 import S3Server
from tidings_stack.server import Place

_OBJECTS = {
    **PLACED,
    "format.class": "JsonFormat",
    "flush.size": str(TAIL),
    "behavior.on.null.values": "ignore",
}
_POINTS = (*SINK_POINTS, "object.complete", "object.stored")
_FIELD = re.compile(r"\bat_(topic|partition|offset)=([^,}]+)")


def _object_places(system: fs.FileSystem, root: str) -> Sequence[RecordPlace]:
    found = []
    for info in system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True)):
        if info.is_file and info.path.endswith(".json"):
            with system.open_input_stream(info.path) as file:
                rows = map(json.loads, file.read().splitlines())
            found += [RecordPlace(row["at_topic"], row["at_partition"], row["at_offset"]) for row in rows]
    return found


class DirectoryTarget(FileTarget):
    """Objects in a directory."""

    claim = Claim.OBJECTS
    points = _POINTS

    def __init__(self, place: Place) -> None:
        self._directory = place.directory

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {
            **_OBJECTS,
            "connector.class": "tidings.ObjectStorageSinkConnector",
            "tidings.storage.url": self._root(run).as_uri(),
        }

    def places(self, run: str) -> Sequence[RecordPlace]:
        """See `Target.places`."""
        return _object_places(fs.LocalFileSystem(), str(self._root(run)))

    def _root(self, run: str) -> Path:
        return self._directory / f"{run}-objects"


class S3Target(Target):
    """Objects in S3Mock."""

    claim = Claim.OBJECTS
    points = _POINTS

    def __init__(self, place: Place) -> None:
        self._s3 = S3Server(place)
        self.serve(self._s3, self._s3.port)

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        assert self.proxy is not None
        return {
            **_OBJECTS,
            "connector.class": "io.confluent.connect.s3.S3SinkConnector",
            "s3.bucket.name": self._s3.bucket,
            "store.url": f"http://127.0.0.1:{self.proxy.port}",
            "aws.access.key.id": "key",
            "aws.secret.access.key": "secret",
            "topics.dir": run,
        }

    def places(self, run: str) -> Sequence[RecordPlace]:
        """See `Target.places`."""
        system = fs.S3FileSystem(
            access_key="key", secret_key="secret", endpoint_override=f"127.0.0.1:{self._s3.port}", scheme="http", region="us-west-2"
        )  # fmt: skip
        return _object_places(system, f"{self._s3.bucket}/{run}")


class LinesTarget(FileTarget):
    """Lines of a file to which two tasks append, by Kafka Connect's own sink. Its disk is full at times."""

    claim = Claim.AT_LEAST_ONCE
    in_order = True

    def __init__(self, place: Place) -> None:
        self._directory = place.directory

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {**PLACED, "connector.class": "FileStreamSink", "file": str(self._file(run))}

    def places(self, run: str) -> Sequence[RecordPlace]:
        """See `Target.places`."""
        if not self._file(run).exists():
            return []
        lines = [dict(_FIELD.findall(line)) for line in self._file(run).read_text("utf-8").splitlines()]
        return [RecordPlace(line["topic"], int(line["partition"]), int(line["offset"])) for line in lines]

    def _file(self, run: str) -> Path:
        return self._directory / f"{run}.lines"

    @contextlib.contextmanager
    def occupied(self, run: str) -> Iterator[None]:
        """See `FileTarget.occupied`: the tasks that have the file open find a full disk, in the midst of a line."""
        file = self._file(run)
        most = (file.stat().st_size if file.exists() else 0) + 17
        before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in _who_has(file)}
        for pid, (_, hard) in before.items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, hard))
        yield
        for pid, limits in before.items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


def _who_has(file: Path) -> set[int]:
    """The processes that have a file open."""
    found = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if descriptor.readlink() == file:
                found.add(int(descriptor.parts[2]))
    return found
