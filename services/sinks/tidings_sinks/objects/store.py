"""Where objects go: one module of the sinks speaks to S3, Google Cloud Storage, Azure and file systems."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from pyarrow import fs

from tidings_connect.task.sink import RetriableError
from tidings_service.s3_rights import Signer, StoreError, bucket_url, check_upload
from tidings_sinks.errors import TargetError

_PATIENCE: Final = timedelta(seconds=30)
"""How long the library tries by itself, where its default is longer than a task may be silent."""
_FOR_GOOD: Final = (
    "NO_SUCH_BUCKET",
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "HTTP status 403",
    "HTTP status 404",
)
"""What Arrow's S3 says when it makes no difference how often it is asked."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where objects go."""

    url: str
    """``file:///directory``, ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``abfss://container@account.dfs.core.windows.net/prefix``."""
    region: str = ""
    endpoint: str = ""
    """The URL of a server that speaks S3's protocol; empty: Amazon's."""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    path_style: bool = True


class Store(Protocol):
    """Takes objects."""

    def put(self, name: str, data: bytes) -> None:
        """Write an object, in place of one of that name: whole, or not at all.

        Raises:
            RetriableError: the store is away or busy.
            TargetError: it does not take it.
        """
        ...


def open_store(place: Place) -> Store:
    """The store of a place.

    Raises:
        TargetError: it cannot be understood.
    """
    parts = urlsplit(place.url)
    if parts.scheme == "file":
        return _Directory(Path(parts.path))
    prefix = f"{parts.netloc}{parts.path}".strip("/")
    if parts.scheme == "s3":
        return _Remote(_s3(place), prefix)
    if parts.scheme == "gs":
        return _Remote(fs.GcsFileSystem(retry_time_limit=_PATIENCE), prefix)
    container, _, host = parts.netloc.partition("@")
    key: Mapping[str, str] = {"account_key": place.secret_key} if place.secret_key else {}
    return _Remote(fs.AzureFileSystem(host.partition(".")[0], **key), f"{container}{parts.path}".strip("/"))


def _s3(place: Place) -> fs.FileSystem:
    own = urlsplit(place.endpoint)
    server = {"endpoint_override": own.netloc, "scheme": own.scheme} if place.endpoint else {}
    login = {"access_key": place.access_key, "secret_key": place.secret_key} if place.access_key else {}
    return fs.S3FileSystem(
        region=place.region or None,
        force_virtual_addressing=not place.path_style,
        background_writes=False,
        allow_delayed_open=True,  # a small object is one request, not three
        **server,
        **login,
    )


def look(place: Place) -> None:
    """See that a bucket is there and, where it is S3's with a key of its own, takes objects; none is written.

    Raises:
        RetriableError: the store is away.
        TargetError: there is no such bucket, or it refuses the key.
    """
    parts = urlsplit(place.url)
    store = open_store(place)
    assert isinstance(store, _Remote)
    store.look()
    if parts.scheme == "s3" and place.access_key:
        region = place.region or "us-east-1"
        bucket = bucket_url(place.endpoint, parts.netloc, region, by_path=place.path_style)
        try:
            check_upload(Signer(place.access_key, place.secret_key, region), bucket, parts.path.rstrip("/"))
        except StoreError as error:
            raise TargetError(
                str(error), hint="give the key s3:PutObject and s3:AbortMultipartUpload on the objects there"
            ) from error


class _Remote:
    """An object is there when its upload ends, and not before."""

    def __init__(self, system: fs.FileSystem, prefix: str) -> None:
        self._fs, self._prefix = system, prefix

    def look(self) -> None:
        """See that the bucket is there, and may be listed."""
        bucket = self._prefix.partition("/")[0]
        try:
            found = self._fs.get_file_info(bucket)
        except OSError as error:
            said = f"{error}"
            kind = TargetError if any(text in said for text in _FOR_GOOD) else RetriableError
            raise kind(f"bucket {bucket} cannot be looked at: {said}") from error
        if found.type is fs.FileType.NotFound:
            raise TargetError(f"there is no bucket {bucket}", hint="create it, or correct the option")

    def put(self, name: str, data: bytes) -> None:
        try:
            with self._fs.open_output_stream(f"{self._prefix}/{name}") as stream:
                stream.write(data)
        except OSError as error:
            said = f"{error}"
            if any(text in said for text in _FOR_GOOD):
                raise TargetError(f"object {name} cannot be written: {said}") from error
            raise RetriableError(f"object {name} cannot be written: {said}") from error


class _Directory:
    """A file gets its name when it is whole and durable. A process that is killed may leave one with a dot before its name."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, name: str, data: bytes) -> None:
        file = self._directory / name
        part = file.with_name(f".{file.name}.{os.getpid()}.part")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                with part.open("wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                part.replace(file)
            except OSError:
                with contextlib.suppress(FileNotFoundError):
                    part.unlink()
                raise
            descriptor = os.open(file.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise RetriableError(f"file {file} cannot be written: {error.strerror}") from error
